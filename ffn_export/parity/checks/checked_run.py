"""The input of the checks of a whole graph: the graph, its reference, and the cases that ran."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx_ir as ir

from ffn_export.parity.cases.case import Case
from ffn_export.parity.judging.result import CaseResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.module_trace import Watched, watch
from ffn_export.parity.reference.references import Reference


@dataclass(frozen=True)
class CheckedRun:
    """A verification after its cases.

    Attributes:
        path: The ONNX file.
        model: Model in the file.
        reference: Reference that the model should agree with.
        cases: The cases.
        results: Result of every runtime on every case.
        loaded: Names of the runtimes that ran the cases.
        unavailable: Runtime -> why it could not run them.
        output_differences: Axes of outputs whose size on a case differs from their declaration, one line each.
        tolerances: Declared tolerances; None for the defaults.
    """

    path: Path
    model: ir.Model
    reference: Reference
    cases: Sequence[Case]
    results: Sequence[CaseResult]
    loaded: Collection[str]
    unavailable: Mapping[str, str]
    output_differences: tuple[str, ...]
    tolerances: Tolerances | None

    @cached_property
    def module_trace(self) -> Watched | None:
        """Numbers that the module computes with, on the first case with outputs; None without a module."""
        case = self.first(result for result in self.results if result.outputs)
        if self.reference.source is None or case is None:
            return None
        return watch(self.reference.source, case.feeds(self.reference.inputs))

    @property
    def declares_tolerance(self) -> bool:
        """Whether a tolerance is declared for all runtimes, which may allow another operator or rounding."""
        declared = None if self.tolerances is None else self.tolerances.for_runtime(None)
        return declared is not None and (declared.relative_l2 is not None or bool(declared.closeness))

    def first(self, results: Iterable[CaseResult]) -> Case | None:
        """Return the first case with one of these results, or None."""
        names = {result.case for result in results}
        return next((case for case in self.cases if case.name in names), None)
