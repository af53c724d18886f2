"""Find the integers of an input that a graph tells apart, by running every integer of its range.

A table of tokens has thousands of rows, and a sweep draws only a few. The nodes between an input and a comparison are
few and read no other input, so they run on all integers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.fusion_check.running import RefusedError, Runtimes
from ffn_export.parity.cases.thresholds.arrivals import distances
from ffn_export.parity.cases.thresholds.find import Threshold

_LARGEST_RANGE = 2**20
_MOST_ELEMENTS = 2**26  # elements of a distance, if each integer is compared with many numbers
_MOST = 64


def told_apart(
    model: ir.Model, thresholds: Sequence[Threshold], spec: TensorSpec, runtimes: Runtimes
) -> tuple[int, ...]:
    """Return the integers on both sides of each change of a threshold that reads only this input.

    Args:
        model: A graph without functions and branches.
        thresholds: Thresholds of this graph.
        spec: The input.
        runtimes: Runtimes that run the graph.
    """
    own = [threshold for threshold in thresholds if threshold.inputs == {spec.name}]
    low, high = spec.value_range or (0, 1)
    if spec.is_floating or not own or not spec.dims or not 1 < high - low < _LARGEST_RANGE:
        return ()
    every = np.arange(low, high + 1).astype(numpy_dtype(spec.dtype))
    found = {int(n) for array in _distances(model, own, spec, every, runtimes) for n in every[_changes(array, every)]}
    return tuple(sorted(found))


def in_pairs(spec: TensorSpec, base: Mapping[str, int], numbers: Sequence[int]) -> tuple[dict[str, int], Array]:
    """Return sizes, and rows in which each integer stands directly after each, itself included.

    Such a row is a de Bruijn sequence. It shows which of several equal tokens a graph takes, such as the first end of a
    text or the last, and tokens that are wrong behind another one.
    """
    row: list[int] = []
    for place, number in enumerate(numbers):
        row.append(number)
        row += (each for other in numbers[place + 1 :] for each in (number, other))
    row.append(numbers[0])
    sizes, last = dict(base), spec.symbolic.get(len(spec.dims) - 1)
    if last is not None:
        sizes[last.name] = last.clamp(len(row))
    shape = spec.shape(sizes)
    rows = np.resize(np.array(row, numpy_dtype(spec.dtype)), shape[-1:])
    return sizes, np.broadcast_to(rows, shape).copy()


def _distances(
    model: ir.Model, thresholds: Sequence[Threshold], spec: TensorSpec, every: Array, runtimes: Runtimes
) -> list[Array]:
    """Run the nodes before each threshold, and leave out thresholds that cannot run on all integers at once."""
    copied = model.clone()
    feeds = {spec.name: every.reshape([1] * (len(spec.dims) - 1) + [-1])}
    for value in copied.graph.inputs:
        if value.name != spec.name and not value.is_initializer() and value.shape is not None:  # read by no threshold
            feeds[str(value.name)] = np.zeros([1] * len(value.shape), (value.dtype or ir.DataType.FLOAT).numpy())
        value.shape = None  # a declared size does not fit the number of integers
    try:
        with distances(copied, thresholds, runtimes) as loaded:
            return list(loaded.run(feeds).values())
    except RefusedError:
        if len(thresholds) == 1:
            return []
    half = len(thresholds) // 2
    return [
        array
        for part in (thresholds[:half], thresholds[half:])
        for array in _distances(model, part, spec, every, runtimes)
    ]


def _changes(distance: Array, every: Array) -> Array:
    """Return the positions of the integers on both sides of each change of side."""
    axes = [axis for axis, size in enumerate(distance.shape) if size == every.size]
    if len(axes) != 1 or distance.size > _MOST_ELEMENTS:
        return np.array([], int)
    sides = np.sign(np.moveaxis(distance, axes[0], 0).reshape(every.size, -1))
    (before,) = np.nonzero((sides[1:] != sides[:-1]).any(axis=1))
    if before.size > _MOST:
        before = before[np.linspace(0, before.size - 1, _MOST).astype(int)]
    return np.unique([before, before + 1])
