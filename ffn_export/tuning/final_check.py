"""Verification of the tuned model. The search applies it before it takes other session options or 8-bit weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ffn_export.calibration.statistics import drawn_inputs
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array, Progress, silent
from ffn_export.parity.cases.case import Case, given_cases, samples_of
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.references import OnnxReference, Reference
from ffn_export.quantization.options import on_drawn
from ffn_export.runtimes.ort_native import of_lower_precision
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.options import TuneOptions


@dataclass(frozen=True)
class Gate:
    """A verification, with separate budgets for float32 and for what computes in fewer bits.

    Attributes:
        reference: Reference of the model.
        samples: Cases of the user, in addition to the cases that each model asks for.
        budget: Declared relative L2 error of an output; None means the bound in ULP.
        few_bits_budget: The same for a model with quantised weights, and for native kernels in lower precision, for
            which alone it then is.
        seed: Seed of the drawn inputs.
        fast: Whether the cases are few, so that none is aimed at the graph.
    """

    reference: Reference
    samples: Sequence[Case] = ()
    budget: float | None = None
    few_bits_budget: float | None = None
    seed: int = 0
    fast: bool = False

    def feeds(self, inputs: Sequence[TensorSpec]) -> Mapping[str, Array]:
        """Return what channels and nodes are measured on: the samples, or drawn inputs."""
        return samples_of(self.samples) or drawn_inputs(inputs, self.seed)

    def verify(
        self,
        path: Path,
        choice: Choice,
        *,
        runtimes: Sequence[str] | None = None,
        threads: int = 1,
        progress: Progress = silent,
    ) -> ParityResult:
        """Verify the model file of a choice, under the session options of the choice.

        Native kernels judge in the precision of the choice, beside the CPU provider, which runs the bodies. Without
        names, every runtime judges that can run the model here.

        Raises:
            RuntimeUnavailableError: If a runtime requested by name cannot run here.
        """
        budget, drawn, budget_of = self.budget, None, None
        native = of_lower_precision(choice.precision)
        if native is not None and self.few_bits_budget is not None:
            budget, budget_of = self.few_bits_budget, native.name
            drawn = on_drawn(budget) if self.samples else None
        elif choice.quantization is not None:
            budget = self.few_bits_budget
            sampled = bool(self.samples)
            drawn = None if budget is None else choice.quantization.drawn_budget(budget, sampled=sampled)
        return run_cases(
            path,
            self.reference,
            runtimes=runtimes,
            settings=choice.settings,
            further=self.samples,
            seed=self.seed,
            fast=self.fast,
            tolerances=Tolerances(relative_l2=budget, drawn_l2=drawn, budget_of=budget_of),
            threads=threads,
            progress=progress,
        )


def own_gate(path: Path, options: TuneOptions, threads: int) -> Gate:
    """Return the gate that compares a tuned model with the exported one."""
    reference = OnnxReference(path, threads)
    return Gate(reference, given_cases(options.samples, reference.inputs), few_bits_budget=options.budget)
