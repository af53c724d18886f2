"""Integers outside a range that was guessed.

The range of an input that is put into buckets, clamped or hashed before it indexes a table is guessed from the size of
a table, and the input may hold other integers. Three sources name such integers:

1. Both sides of each change of a threshold, as within the range.
2. Both sides of each change of an integer that is computed from the input, such as a bucket.
3. A few integers next to the range and far from it, for a graph without the clamp that the module has.

Only integers up to the farthest that the reference accepts are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.fusion_check.running import Runtimes
from ffn_export.parity.cases.thresholds.arrivals import on_integers
from ffn_export.parity.cases.thresholds.find import Threshold, data_of

_DENSE = 4096  # integers up to this magnitude are all tried on the nodes before a threshold
_FARTHEST = 2**31 - 1  # the Clip of ONNX Runtime's CPU provider takes 2**31 in int64 for a negative number
_RATIO = 1.02
_BETWEEN = 64  # integers tried between two others
_MOST_STEPS = 8  # the widest gap is below 64**5
_MOST = 64  # changes of one value
_OTHERS = (255, 1000, 4000)
_STEPS = (1, 1000, 2**20)
# Operator -> places of inputs that are a shape, a number of elements or a place in a cache. A large one would take all
# memory, or be read from outside an array.
_SHAPES: Mapping[str, frozenset[int]] = {
    "Attention": frozenset({6}),
    "ConstantOfShape": frozenset({0}),
    "Expand": frozenset({1}),
    "OneHot": frozenset({1}),
    "Pad": frozenset({1}),
    "Range": frozenset({0, 1, 2}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({2, 3}),
    "RotaryEmbedding": frozenset({3}),
    "TensorScatter": frozenset({2}),
    "Tile": frozenset({1}),
}
Takes = Callable[[TensorSpec, int], bool]
"""Whether the reference accepts an integer everywhere in an input."""


@dataclass(frozen=True)
class Beyond:
    """Finds integers outside guessed ranges.

    Attributes:
        model: A graph without functions and branches.
        thresholds: Thresholds of this graph.
        runtimes: Runtimes that run the graph.
    """

    model: ir.Model
    thresholds: Sequence[Threshold]
    runtimes: Runtimes

    def integers(self, spec: TensorSpec, takes: Takes) -> tuple[int, ...]:
        """Return the integers of an input to verify if its range was guessed; none if all are within the range."""
        if not is_open(spec) or self._decides_sizes(spec.name):
            return ()
        low, high = (int(end) for end in spec.value_range or (0, 1))
        lowest, highest = _ends(spec)
        bottom, top = (_reach(*end, partial(takes, spec)) for end in ((low, -1, lowest), (high, 1, highest)))
        if (bottom, top) == (low, high):
            return ()
        far = {end for end in (bottom, top) if lowest < end < highest}
        near = (end + sign * step for end, sign in ((low, -1), (high, 1)) for step in (1, high - low + 1))
        others = (sign * number for number in _OTHERS for sign in (-1, 1))
        shown = {*self._changes(spec, bottom, top), *near, *others, *far}
        return tuple(sorted(number for number in shown if bottom <= number <= top))

    def _decides_sizes(self, name: str) -> bool:
        """Whether an input decides sizes, places or rounds of a loop, or is read by an operator that may not check."""
        data = data_of(self.model)
        for node in self.model.graph:
            read = [
                place for place, value in enumerate(node.inputs) if value is not None and name in data.get(value, ())
            ]
            if node.op_type == "Loop" and name in data.get(node.outputs[0], ()):
                return True
            if node.domain == "" and not _SHAPES.get(node.op_type, frozenset()).isdisjoint(read):
                return True
            if node.domain != "" and any(_is_integer(value) for value in map(node.inputs.__getitem__, read) if value):
                return True
        return False

    def _changes(self, spec: TensorSpec, bottom: int, top: int) -> set[int]:
        """Return the integers on both sides of each change of a threshold's side, or of a computed integer."""
        own = [each for each in self.thresholds if each.inputs == {spec.name}]
        buckets = [_as_threshold(value, spec.name) for value in self._buckets(spec.name)]
        tried, found = _scale(own, bottom, top).astype(numpy_dtype(spec.dtype)), set[int]()
        for _ in range(_MOST_STEPS if own or buckets else 0):
            gaps = set[tuple[int, int]]()
            # Along the batch: what compares each token with each would take the square of so many.
            for each, array in on_integers(self.model, [*own, *buckets], spec, tried, self.runtimes, axis=0):
                gaps |= _gaps(array, tried, as_sides=each in own)
            found.update(number for gap in gaps if gap[1] - gap[0] == 1 for number in gap)
            wide = [gap for gap in gaps if gap[1] - gap[0] > 1]
            if not wide:
                break
            parts = [np.linspace(*gap, _BETWEEN + 2).astype(np.int64) for gap in wide]
            tried = np.unique(np.concatenate(parts)).astype(tried.dtype)
        return found

    def _buckets(self, name: str) -> Iterator[ir.Value]:
        """Yield the integers computed from one input alone that other than integers are computed from."""
        outputs = set(self.model.graph.outputs)
        for value, inputs in data_of(self.model).items():
            if inputs != {name} or value.producer() is None or not _is_integer(value):
                continue
            users = [output for user, _ in value.uses() for output in user.outputs]
            if value in outputs or not all(map(_is_integer, users)):
                yield value


def is_open(spec: TensorSpec) -> bool:
    """Whether an input may hold integers outside its range."""
    return spec.range_is_guessed and bool(spec.dims) and not spec.is_floating and spec.dtype != "bool"


def holding(spec: TensorSpec, base: Mapping[str, int], numbers: Sequence[int]) -> tuple[dict[str, int], Array]:
    """Return sizes at which an input has room for integers, and an input of these sizes that holds them."""
    sizes = dict(base)
    if spec.symbolic:
        dim = spec.symbolic[max(spec.symbolic)]
        room = math.prod(spec.shape({**sizes, dim.name: 1}))
        sizes[dim.name] = dim.clamp(max(sizes[dim.name], math.ceil(len(numbers) / max(room, 1))))
    array = np.resize(np.array(numbers), spec.shape(sizes))
    return sizes, array.astype(numpy_dtype(spec.dtype))


def _is_integer(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer()


def _as_threshold(value: ir.Value, name: str) -> Threshold:
    return Threshold("", str(value.name), 0.0, frozenset({name}))


def _ends(spec: TensorSpec) -> tuple[int, int]:
    info = np.iinfo(numpy_dtype(spec.dtype))
    return max(int(info.min), -_FARTHEST), min(int(info.max), _FARTHEST)


def _scale(thresholds: Sequence[Threshold], bottom: int, top: int) -> Array:
    """Return all small integers, those next to limits, and ever fewer of the larger ones."""
    count = int(math.log(_FARTHEST / _DENSE) / math.log(_RATIO)) + 2
    far = (_DENSE * _RATIO ** np.arange(count)).astype(np.int64)
    limits = [int(each.limit) for each in thresholds if isinstance(each.limit, float) and abs(each.limit) < _FARTHEST]
    beside = np.add.outer(np.array(limits, np.int64), np.arange(-1, 2)).reshape(-1)
    scale = np.unique(np.concatenate([-far, np.arange(-_DENSE, _DENSE + 1), beside, far, [bottom, top]]))
    kept: Array = scale[(scale >= bottom) & (scale <= top)]
    return kept


def _gaps(distance: Array, tried: Array, *, as_sides: bool) -> set[tuple[int, int]]:
    """Return neighbours among the tried integers on which a distance, or its side, differs."""
    axes = [axis for axis, size in enumerate(distance.shape) if size == tried.size]
    if len(axes) != 1:
        return set()
    values = np.moveaxis(distance, axes[0], 0).reshape(tried.size, -1)
    values = np.sign(values) if as_sides else values
    (before,) = np.nonzero((values[1:] != values[:-1]).any(axis=1))
    if before.size > _MOST:
        before = before[np.linspace(0, before.size - 1, _MOST).astype(int)]
    return {(int(tried[place]), int(tried[place + 1])) for place in before}


def _reach(end: int, sign: int, farthest: int, takes: Callable[[int], bool]) -> int:
    """Return the farthest integer beyond an end of a range, in one direction, up to which integers are accepted."""
    room = abs(farthest - end)
    accepted, refused = 0, room + 1
    for step in (*(step for step in _STEPS if step < room), room):
        if not takes(end + sign * step):
            refused = step
            break
        accepted = step
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        accepted, refused = (middle, refused) if takes(end + sign * middle) else (accepted, middle)
    return end + sign * accepted
