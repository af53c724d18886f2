"""Lay out a site's graph in layers, from top to bottom (Sugiyama, Tagawa and Toda 1981).

A site has about a dozen nodes, so the simplest variant of each step is enough:

1. Longest paths define the layers.
2. An edge that skips layers gets a bend in each.
3. Boxes are ordered by the mean position of their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from ffn_export.inspection.site_graph import OperatorGraph, Place

_CHARACTER, _PADDING = 6.4, 10.0  # pixels, of a sans-serif font of 12 pixels
_LINE, _GAP, _LAYER_GAP, _BEND = 15.0, 14.0, 24.0, 8.0
_SWEEPS = 4
_HEAD = 3.0  # half the width of an arrow's head


@dataclass(frozen=True)
class Box:
    """A box, by its upper left corner, in pixels."""

    place: Place
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """Boxes, and the edges between them as SVG paths."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[str, ...]


@dataclass
class _Slot:
    """A box, or the bend of an edge that passes through its layer."""

    width: float
    height: float
    place: Place | None = None
    x: float = 0.0  # of its middle
    y: float = 0.0  # of its top


def drawing(graph: OperatorGraph) -> Drawing:
    """Place the boxes of a graph."""
    slots = [_slot(place) for place in graph.places]
    layer_of = _layers(graph)
    layers: list[list[_Slot]] = [[] for _ in range(max(layer_of, default=0) + 1)]
    for index, slot in enumerate(slots):
        layers[layer_of[index]].append(slot)
    chains = []
    for source, target in graph.edges:
        bends = [_Slot(_BEND, 0) for _ in range(layer_of[source] + 1, layer_of[target])]
        for offset, bend in enumerate(bends):
            layers[layer_of[source] + 1 + offset].append(bend)
        chains.append([slots[source], *bends, slots[target]])
    width = _arrange(layers, chains)
    height = _stack(layers)
    boxes = tuple(Box(s.place, s.x - s.width / 2, s.y, s.width, s.height) for s in slots if s.place is not None)
    return Drawing(width, height, boxes, tuple(map(_path, chains)))


def _slot(place: Place) -> _Slot:
    lines = (place.label, *place.details)
    return _Slot(max(map(len, lines)) * _CHARACTER + 2 * _PADDING, len(lines) * _LINE + _PADDING, place)


def _layers(graph: OperatorGraph) -> list[int]:
    """Return the layer of each box: one below its lowest predecessor."""
    layer = [0] * len(graph.places)
    for source, target in sorted(graph.edges, key=lambda edge: edge[1]):
        layer[target] = max(layer[target], layer[source] + 1)
    for index, place in enumerate(graph.places):  # an input is placed right above its first reader
        if place.kind == "input":
            layer[index] = min((layer[t] for s, t in graph.edges if s == index), default=1) - 1
    return layer


def _arrange(layers: list[list[_Slot]], chains: list[list[_Slot]]) -> float:
    """Order each layer, place its slots from left to right, and return the total width."""
    above: dict[int, list[_Slot]] = {}
    below: dict[int, list[_Slot]] = {}
    for upper, lower in ((a, b) for chain in chains for a, b in pairwise(chain)):
        above.setdefault(id(lower), []).append(upper)
        below.setdefault(id(upper), []).append(lower)
    for layer in layers:
        _spread(layer)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for layer in layers if down else layers[::-1]:
            for slot in layer:
                near = neighbours.get(id(slot))
                slot.x = fmean(n.x for n in near) if near else slot.x
            layer.sort(key=lambda slot: slot.x)
            _spread(layer)
    left = min((s.x - s.width / 2 for layer in layers for s in layer), default=0.0)
    for slot in (s for layer in layers for s in layer):
        slot.x += 1 - left
    return max((s.x + s.width / 2 for layer in layers for s in layer), default=0.0) + 1


def _spread(layer: list[_Slot]) -> None:
    """Move slots apart until they do not overlap, and move the layer back to its mean position."""
    wanted = fmean(slot.x for slot in layer) if layer else 0.0
    for left, right in pairwise(layer):
        right.x = max(right.x, left.x + (left.width + right.width) / 2 + _GAP)
    if layer:
        moved = fmean(slot.x for slot in layer) - wanted
        for slot in layer:
            slot.x -= moved


def _stack(layers: list[list[_Slot]]) -> float:
    """Place the layers from top to bottom, and return the total height."""
    y = 1.0
    for layer in layers:
        tallest = max((slot.height for slot in layer), default=0.0)
        for slot in layer:
            slot.y = y + (tallest - slot.height) / 2
            if slot.place is None:
                slot.y, slot.height = y, tallest
        y += tallest + _LAYER_GAP
    return y - _LAYER_GAP + 1


def _path(chain: list[_Slot]) -> str:
    """Return an edge as an SVG path that is vertical at its ends and bends, with the head of an arrow."""
    first = chain[0]
    x, y = first.x, first.y + first.height
    parts = [f"M{x:.1f} {y:.1f}"]
    end = chain[-1].y
    for slot in chain[1:]:
        middle = (y + slot.y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {slot.x:.1f} {middle:.1f} {slot.x:.1f} {slot.y:.1f}")
        x, y = slot.x, slot.y + slot.height
        if slot.place is None:
            parts.append(f"L{x:.1f} {y:.1f}")
    parts.append(f"M{x - _HEAD:.1f} {end - 2 * _HEAD:.1f}L{x:.1f} {end:.1f}L{x + _HEAD:.1f} {end - 2 * _HEAD:.1f}")
    return "".join(parts)
