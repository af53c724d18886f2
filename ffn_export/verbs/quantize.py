"""``quantize``: quantises a model and verifies it, on the user's inputs if they are given."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.shown import Shown
from ffn_export.core.types import Progress, silent
from ffn_export.parity.cases.case import given_cases
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances, check_budget
from ffn_export.parity.reference.references import OnnxReference
from ffn_export.quantization.options import DEFAULT_BUDGET, DRAWN, QuantizationOptions
from ffn_export.quantization.quantize import quantize_some
from ffn_export.quantization.result import QuantizationReport
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.verbs.open_model import Model, opened


@dataclass(frozen=True)
class Quantized(Shown):
    """A quantised model, verified against the model that it was made from.

    Attributes:
        model: The quantised model.
        report: Result for each matrix product.
        parity: Verification against the original model, under the budget.
        settings: Session options of the verification: those of the bundle, otherwise the defaults.
    """

    model: ir.Model
    report: QuantizationReport
    parity: ParityResult
    settings: SessionSettings = field(default_factory=SessionSettings)

    @property
    def passed(self) -> bool:
        """Whether every output is within the budget."""
        return self.parity.passed


def quantize(
    model: Model,
    options: QuantizationOptions | None = None,
    *,
    budget: float = DEFAULT_BUDGET,
    samples: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Quantized:
    """Store the weights of feed-forwards in 8 or 4 bits, and verify the outputs against those of the original model.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle; it is not modified.
        options: Quantisation options; None means 8 bits in blocks of 32, computed in 8-bit integers.
        budget: The largest relative L2 error of an output.
        samples: Input name -> array to verify on in addition to drawn inputs, which are not real activations.
        runtimes: Names of required runtimes; None means every runtime that can run the model here.
        threads: Intra-op threads; None means the number of processors available to this process.
        seed: Seed of the drawn inputs.
        progress: Called with a line for each case.

    Returns:
        The quantised model and its verification, even if the error is over the budget.

    Raises:
        UsageError: If nothing can be quantised, the model does not exist, or the budget is not a finite number above 0.
    """
    check_budget(budget)
    options = options or QuantizationOptions()
    threads = chosen_threads(threads)
    with opened(model) as file, tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        reference = OnnxReference(file.path, threads)
        progress(f"quantizing {file.path.name} to {options.bits} bits")
        quantized, report = quantize_some(file.load(), options)
        path = Path(scratch) / file.path.name
        onnx_file.save(quantized, path)
        parity = run_cases(
            path,
            reference,
            runtimes=runtimes,
            settings=file.settings,
            further=given_cases(samples, reference.inputs),
            tolerances=Tolerances(relative_l2=budget),
            seed=seed,
            threads=threads,
            progress=progress,
        )
    notes = parity.notes if samples is not None else (*parity.notes, DRAWN)
    return Quantized(quantized, report, replace(parity, notes=notes), file.settings)
