"""Read a feed-forward site as one node: its region, its inputs by name, its attributes.

The node computes ``y = (act(x W1 + b1) * (x W3 + b3)) W2 + b2``, without the factor of ``W3`` if it is not gated. The
activated projection is always the first. The names are those of Mixtral's experts. The order is that of
``com.microsoft::MoE`` (``fc1``, ``fc2``, ``fc3``), which is this operator for many experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion import constants, safety
from ffn_export.fusion.functions.roles import Attribute, Roles, roles
from ffn_export.fusion.region import HALVES, LAYOUT, back
from ffn_export.fusion.sites import QUANTIZED, FoundSite
from ffn_export.fusion.views import input_at, is_standard, producer, rank

_SHAPES = ("Shape", "Concat", "Gather", "Size", "Constant")
_LARGEST_BAKED = 64


@dataclass(frozen=True)
class Reading:
    """A site, ready to become one node.

    Attributes:
        nodes: Nodes of the body, in topological order.
        replaced: Nodes to replace, which nothing else needs.
        inputs: Name of an input -> its value.
        end: Result.
        attributes: Attributes of the node.
        is_known: Whether inputs and attributes define the function, so that a kernel could compute it.
    """

    nodes: tuple[ir.Node, ...]
    replaced: tuple[ir.Node, ...]
    inputs: Mapping[str, ir.Value]
    end: ir.Value
    attributes: Mapping[str, Attribute]
    is_known: bool


def is_baked(value: ir.Value) -> bool:
    """Whether a value is a small constant, which is copied into the body."""
    tensor = constants.tensor_of(value)
    return tensor is not None and tensor.size <= _LARGEST_BAKED


def read(
    model: ir.Model, site: FoundSite, places: Mapping[ir.Node, int], is_own: Callable[[ir.Value], bool] = is_baked
) -> Reading | str:
    """Read a feed-forward, or return why it cannot be one node.

    Args:
        model: Model of the site.
        site: Feed-forward of the model.
        places: Position of every node in its graph.
        is_own: Function that tells whether a value other than input and weights may be read.
    """
    if any(node.op_type == QUANTIZED for node in site.nodes):
        return "its weights are quantized"
    if site.parts > 1:
        return f"its hidden layer is split in {site.parts} parts"
    found = roles(site)
    reason = "it reads more than its input and weights"
    for x in _sources(found):
        region = _region(site, found, x, is_own)
        if isinstance(region, str):
            reason = region
            continue
        same_axes = _has_axes_of(x, found.end)
        if same_axes is False:
            reason = f"the axes of {found.end.name!r} are not those of {x.name!r}"
            continue
        nodes = sorted(region, key=places.__getitem__)
        replaced = _unshared(nodes, found.end)
        lost = safety.refusal(model, replaced, [found.end], None, 0)
        if lost is not None:
            return lost
        inputs = {"x": x, **found.values}
        known = found.is_known and same_axes is True and not any(is_standard(node, "Transpose") for node in nodes)
        return Reading(tuple(nodes), replaced, inputs, found.end, found.attributes, known)
    return reason


def _sources(found: Roles) -> Iterator[ir.Value]:
    """Yield possible inputs: the value that all first products read, and the values before its layout nodes."""
    starts = [input_at(node, 0) for node in found.firsts]
    chains = [list(back(value)) for value in starts if value is not None]
    for value in chains[0] if chains else []:
        if all(value in chain for chain in chains):
            yield value


def _region(site: FoundSite, found: Roles, x: ir.Value, is_own: Callable[[ir.Value], bool]) -> list[ir.Node] | str:
    """Return the nodes between the input and the end, or why there are others; nodes of weights are outside."""
    own = {*site.nodes, *found.trailing}
    stops = {x, *found.values.values()}
    graph = site.nodes[-1].graph
    seen: dict[ir.Node, None] = {}
    waiting = [found.end]
    while waiting:
        value = waiting.pop()
        if value in stops or is_own(value):
            continue
        node = producer(value, within=graph)
        if node is None:
            return f"it also reads {value.name!r}"
        if node not in own and not is_standard(node, *LAYOUT, *HALVES, *_SHAPES):
            return f"it also reads {value.name!r} of {node.op_type}"
        if node not in seen:
            seen[node] = None
            waiting += [each for each in node.inputs if each is not None]
    return list(seen)


def _has_axes_of(x: ir.Value, end: ir.Value) -> bool | None:
    """Whether all axes but the last are the same; None if the shapes are not known."""
    if x.shape is None or end.shape is None:
        return None
    pairs = list(zip(x.shape, end.shape, strict=False))[:-1]
    return rank(x) == rank(end) and all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _unshared(nodes: list[ir.Node], end: ir.Value) -> tuple[ir.Node, ...]:
    """Return the nodes without those of shapes that other nodes read too; the body has copies of them."""
    own = list(nodes)
    for node in reversed(nodes):
        counts = is_standard(node, *_SHAPES, *HALVES, *LAYOUT) and node.outputs[0].dtype == ir.DataType.INT64
        shared = any(user not in own for value in node.outputs for user in value.consumers())
        if counts and shared and end not in node.outputs:
            own.remove(node)
    return tuple(own)
