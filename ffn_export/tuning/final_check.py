"""What the tuned model has to pass in the end. Whatever is taken is held against it, so that the search ends there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ffn_export.core.types import Progress, silent
from ffn_export.parity.cases.case import Case, whole
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.references import OnnxReference, Reference
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.options import TuneOptions


@dataclass(frozen=True)
class Gate:
    """A verification, of a model with its weights as they are and of one with weights in few bits.

    Attributes:
        reference: What the model should compute.
        cases: Inputs that it is judged on.
        budget: Declared relative L2 error of an output; None means the bound in units of the last place.
        few_bits_budget: The same where weights are in few bits.
    """

    reference: Reference
    cases: Sequence[Case]
    budget: float | None = None
    few_bits_budget: float | None = None

    def verify(
        self,
        path: Path,
        choice: Choice,
        *,
        runtimes: Sequence[str] | None = None,
        threads: int = 1,
        progress: Progress = silent,
    ) -> ParityResult:
        """Verify the file that a choice makes, under the session options that belong to it.

        Args:
            path: The file.
            choice: The choice.
            runtimes: As for :func:`~ffn_export.parity.judging.run_cases.verify`, like the others.
            threads: Intra-op threads.
            progress: Called with a line for each case.

        Raises:
            RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
        """
        in_few_bits = choice.quantization is not None
        return run_cases(
            path,
            self.reference,
            runtimes=runtimes,
            settings=choice.settings,
            cases=self.cases,
            tolerances=Tolerances(relative_l2=self.few_bits_budget if in_few_bits else self.budget),
            threads=threads,
            progress=progress,
        )


def own_gate(path: Path, options: TuneOptions, threads: int) -> Gate:
    """Return the gate of a model that is held against itself as it was exported.

    Args:
        path: The model as it was exported.
        options: Its samples are judged on, and its budget.
        threads: Intra-op threads of the baseline.
    """
    reference = OnnxReference(path, threads)
    cases = whole(reference.inputs, reference.example, options.samples)
    return Gate(reference, cases, few_bits_budget=options.budget)
