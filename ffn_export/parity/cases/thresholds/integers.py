"""Inputs with the integers that a graph tells apart, or with every integer where nothing shows which.

A table of tokens has thousands of rows, and a sweep draws only a few. The nodes between an input and a comparison are
few and read no other input, so they run on all integers of its range at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all, numpy_dtype
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.fusion_check.running import Runtimes
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.sizes.work import Work
from ffn_export.parity.cases.thresholds.arrivals import on_integers
from ffn_export.parity.cases.thresholds.beyond import Beyond, Takes, holding, is_open
from ffn_export.parity.cases.thresholds.every import every
from ffn_export.parity.cases.thresholds.find import Threshold

_LARGEST_RANGE = 2**20
_MOST_ELEMENTS = 2**26  # elements of a distance, if each integer is compared with many numbers
_MOST = 64
_MOST_CASES = 4
_PAIRED = 8  # integers of which each stands after each in a row
_Made = tuple[str, Mapping[str, Array]]  # what stands in the inputs, and the inputs


@dataclass(frozen=True)
class IntegersOf:
    """Makes inputs for the integers of a graph, under masks of ones.

    Attributes:
        model: A graph without functions and branches.
        thresholds: Thresholds of this graph.
        specs: The inputs.
        base: Sizes of axes that need no other size.
        runtimes: Runtimes that run the graph.
        seed: Seed of the drawn inputs.
        affordable: Largest work of a case.
    """

    model: ir.Model
    thresholds: Sequence[Threshold]
    specs: Sequence[TensorSpec]
    base: Mapping[str, int]
    runtimes: Runtimes
    seed: int
    affordable: int

    def beside(self, feeds: Mapping[str, Array]) -> Iterator[_Made]:
        """Yield inputs with the integers that the graph tells apart: mixed with others, and each after each."""
        shown = masks.all_seen(self.specs, feeds)
        rng = np.random.default_rng(self.seed)
        for spec in self.specs:
            numbers = self._told_apart[spec.name]
            array = feeds[spec.name]
            room = max(array.size // 2, 1)
            for start in range(0, min(len(numbers), room * _MOST_CASES), room):
                changed = array.copy()
                places = rng.permutation(array.size)[:room]
                changed.flat[places] = np.resize(numbers[start : start + room], places.size)
                yield f"of {spec.name}", {**shown, spec.name: changed}
            for start in range(0, min(len(numbers), _PAIRED * _MOST_CASES), _PAIRED):
                sizes, rows = _in_pairs(spec, self.base, numbers[start : start + _PAIRED])
                if self._is_affordable(sizes):
                    yield f"of {spec.name} in pairs", {**self._drawn(sizes), spec.name: rows}

    def in_rows(self, sizes: Mapping[str, int]) -> Iterator[_Made]:
        """Yield inputs of these sizes with the integers that the graph tells apart, one integer in each row."""
        for spec in self.specs:
            numbers, batch = self._told_apart[spec.name], spec.symbolic.get(0)
            if numbers and batch is not None:
                grown = {**sizes, batch.name: batch.clamp(max(sizes[batch.name], len(numbers)))}
                if self._is_affordable(grown):
                    drawn = self._drawn(grown)
                    filled = drawn[spec.name].copy()
                    filled.T[...] = np.resize(numbers, len(filled))
                    yield f"of {spec.name} in rows", {**drawn, spec.name: filled}

    def beyond(self, takes: Takes) -> Iterator[_Made]:
        """Yield inputs with integers outside the ranges that were guessed, as far as the reference accepts them."""
        found = Beyond(self.model, self.thresholds, self.runtimes)
        for spec in filter(is_open, self.specs):
            numbers = found.integers(spec, takes)
            sizes, array = holding(spec, self.base, numbers)
            while not self._is_affordable(sizes) and len(numbers) > 1:
                numbers = numbers[::2]
                sizes, array = holding(spec, self.base, numbers)
            if numbers:
                yield f"of {spec.name} beyond its range", {**self._drawn(sizes), spec.name: array}

    def every(self, readers: Mapping[str, ir.Node]) -> tuple[list[_Made], tuple[str, ...]]:
        """Return inputs that hold every integer of an input, and notes on inputs of which they would take too long.

        Args:
            readers: Input name -> node that may tell any of its integers apart.
        """
        made, notes = list[_Made](), list[str]()
        for spec in (spec for spec in self.specs if spec.name in readers):
            found = every(self.model, spec, self.specs, self.base, self.seed)
            made += [(f"of every {spec.name}", feeds) for feeds in found]
            if not found:
                node = readers[spec.name]
                notes.append(
                    f"not every integer of {spec.name!r} is verified: node {node.name!r} ({node.op_type}) may compute "
                    "anything of any of them"
                )
        return made, tuple(notes)

    @cached_property
    def _told_apart(self) -> dict[str, tuple[int, ...]]:
        specs = self.specs
        return {spec.name: _integers_told_apart(self.model, self.thresholds, spec, self.runtimes) for spec in specs}

    def _is_affordable(self, sizes: Mapping[str, int]) -> bool:
        return Work.of(self.model).of_case(self.specs, sizes) <= self.affordable

    def _drawn(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        return masks.all_seen(self.specs, draw_all(self.specs, sizes, self.seed))


def _integers_told_apart(
    model: ir.Model, thresholds: Sequence[Threshold], spec: TensorSpec, runtimes: Runtimes
) -> tuple[int, ...]:
    """Return the integers on both sides of each change of a threshold that reads only this input."""
    own = [threshold for threshold in thresholds if threshold.inputs == {spec.name}]
    low, high = spec.value_range or (0, 1)
    if spec.is_floating or not own or not spec.dims or not 1 < high - low < _LARGEST_RANGE:
        return ()
    span = np.arange(low, high + 1).astype(numpy_dtype(spec.dtype))
    found = {int(n) for _, array in on_integers(model, own, spec, span, runtimes) for n in span[_changes(array, span)]}
    return tuple(sorted(found))


def _in_pairs(spec: TensorSpec, base: Mapping[str, int], numbers: Sequence[int]) -> tuple[dict[str, int], Array]:
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


def _changes(distance: Array, span: Array) -> Array:
    """Return the positions of the integers on both sides of each change of side."""
    axes = [axis for axis, size in enumerate(distance.shape) if size == span.size]
    if len(axes) != 1 or distance.size > _MOST_ELEMENTS:
        return np.array([], int)
    sides = np.sign(np.moveaxis(distance, axes[0], 0).reshape(span.size, -1))
    (before,) = np.nonzero((sides[1:] != sides[:-1]).any(axis=1))
    if before.size > _MOST:
        before = before[np.linspace(0, before.size - 1, _MOST).astype(int)]
    return np.unique([before, before + 1])
