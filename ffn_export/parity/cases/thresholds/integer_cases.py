"""Inputs with the integers that a graph tells apart, or with every integer where nothing shows which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.fusion_check.running import Runtimes
from ffn_export.parity.cases.sizes.work import Work
from ffn_export.parity.cases.thresholds.every import every
from ffn_export.parity.cases.thresholds.find import Threshold
from ffn_export.parity.cases.thresholds.integers import in_pairs, told_apart

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
        shown = self._seen(feeds)
        rng = np.random.default_rng(self.seed)
        for spec in self.specs:
            numbers = self._told_apart[spec.name]
            array = feeds[spec.name]
            room = max(array.size // 2, 1)
            for start in range(0, min(len(numbers), room * _MOST_CASES), room):
                changed = array.copy()
                places = rng.permutation(array.size)[:room]
                changed.flat[places] = np.resize(numbers[start : start + room], places.size)
                yield f"of {spec.name}", {**feeds, **shown, spec.name: changed}
            for start in range(0, min(len(numbers), _PAIRED * _MOST_CASES), _PAIRED):
                sizes, rows = in_pairs(spec, self.base, numbers[start : start + _PAIRED])
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
        return {spec.name: told_apart(self.model, self.thresholds, spec, self.runtimes) for spec in self.specs}

    def _is_affordable(self, sizes: Mapping[str, int]) -> bool:
        return Work.of(self.model).of_case(self.specs, sizes) <= self.affordable

    def _drawn(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        drawn = draw_all(self.specs, sizes, self.seed)
        return drawn | self._seen(drawn)

    def _seen(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return {each.name: np.ones_like(feeds[each.name]) for each in self.specs if each.is_mask}
