"""``quantize``: quantises a model and verifies it, on the user's inputs if they are given."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export.calibration.metrics import Measured, beside, parse
from ffn_export.calibration.statistics import batches, drawn_inputs
from ffn_export.calibration.within_budget import Budget, fit
from ffn_export.core import freed, onnx_file
from ffn_export.core.checked_numbers import check_seed
from ffn_export.core.shown import Shown
from ffn_export.core.types import Progress, silent
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.texts import Texts
from ffn_export.parity.cases.case import given_cases, samples_of
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances, check_budget
from ffn_export.parity.reference.references import OnnxReference, graph_inputs
from ffn_export.quantization.options import BROKEN, DRAWN, INT8_BUDGET, QuantizationOptions
from ffn_export.quantization.quantize import prepared
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
        measured: The metric's figure on the samples; None without a metric.
        budget: The largest relative L2 error of an output.

    Examples:
        >>> quantized = fx.quantize("model.onnx", budget=0.1, runtimes=["ort-cpu"])
        >>> "MatMulNBits" in {node.op_type for node in quantized.model.graph}
        True
    """

    model: ir.Model
    report: QuantizationReport
    parity: ParityResult
    settings: SessionSettings = field(default_factory=SessionSettings)
    measured: Measured | None = None
    budget: float = INT8_BUDGET

    @property
    def failure(self) -> str | None:
        """Why the model is over the budget or worse than the metric asks for, or None."""
        if self.measured is not None and not self.measured.passed:
            return self.measured.words
        error = self.report.error
        if self.measured is None and error is not None and math.isinf(error):
            return (
                "an output on the samples is not zero, NaN or infinite where that of the original is, has another "
                "shape, or differs in more than half of its integers"
            )
        if self.measured is None and error is not None and not error <= self.budget:
            return (
                f"relative L2 error {beside(error, self.budget)} on the samples, the declared budget is {self.budget:g}"
            )
        if self.parity.passed:
            return None
        found = self.parity.failures[0]
        if DRAWN in self.parity.notes:
            return f"{found} ({DRAWN})"
        if self.parity.tolerances.relative_l2 not in (None, self.budget):
            return f"{found} (which is for drawn inputs; on the samples it is {self.budget:g})"
        return found

    @property
    def passed(self) -> bool:
        """Whether every output is within the budget, and the metric is reached."""
        return self.failure is None


def quantize(
    model: Model,
    options: QuantizationOptions | None = None,
    *,
    budget: float | None = None,
    samples: Mapping[str, Any] | Texts | None = None,
    metric: str | None = None,
    sensitivity: bool = False,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Quantized:
    """Quantise the products of feed-forwards, and verify the outputs against those of the original model.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle; it is not modified.
        options: Quantisation options; None means 8 bits in blocks of 32, computed in 8-bit integers.
        budget: The largest relative L2 error of an output; None means the default of the options.
        samples: Input name -> array to verify on in addition to drawn inputs, which are not real activations, and to
            smooth 8-bit activations by in their place; or ``fx.Texts``, for the tokenizer beside the model.
        metric: A figure that the outputs on the samples must reach, judged in place of their error: ``cosine=0.998``,
            ``top1=0.99`` or ``FILE.py:function=0.9``. The function gets the outputs before and after by name.
            Drawn inputs then show a broken model only.
        sensitivity: Whether to measure error and time of the products of each input even if all fit the budget.
        runtimes: Names of required runtimes; None means every runtime that can run the model here.
        threads: Intra-op threads; None means the number of processors available to this process.
        seed: Seed of the drawn inputs.
        progress: Called with a line for each case.

    Returns:
        The quantised model and its verification, even if the error is over the budget.

    Raises:
        UsageError: If nothing can be quantised, the model does not exist, or the budget is not a finite number above 0.

    Examples:
        >>> quantized = fx.quantize("model.onnx", budget=0.1, runtimes=["ort-cpu"])
        >>> quantized.passed
        True
    """
    if options is not None and not isinstance(options, QuantizationOptions):
        raise UsageError(f"{options!r} is no QuantizationOptions: write ffn_export.QuantizationOptions(bits=8)")
    options = options or QuantizationOptions()
    asked = None if metric is None else parse(metric)
    if samples is None and (asked is not None or sensitivity):
        raise UsageError("a metric and the sensitivity are measured on real inputs: give samples")
    if not options.int8 and (asked is not None or sensitivity):
        raise UsageError("a metric and the sensitivity are for 8-bit activations: take int8")
    if budget is None:
        budget = options.default_budget if asked is None else BROKEN
    check_budget(budget)
    check_seed(seed)
    # The samples are judged as a whole, without their padding. The cases then show a broken model only.
    allowed = options.drawn_budget(budget, sampled=samples is not None) or budget
    threads = chosen_threads(threads)
    with opened(model, in_place=True) as file, tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        original, model = _in_files(file.path, file.load(), Path(scratch))
        freed.now()  # the weights of a model that is not in files
        inputs = graph_inputs(model, None)
        if isinstance(samples, Texts):
            samples = samples.read({spec.name: spec.dtype for spec in inputs}, file.path.parent)
        given = samples_of(given_cases(samples, inputs))
        progress(f"quantizing {file.path.name} to {options.bits} bits")
        bounds = Budget(budget, asked)
        fitted = fit(
            prepared(model),
            options,
            given,
            bounds,
            threads,
            drawn=drawn_inputs(inputs, seed) if options.int8 else None,
            always_measure=sensitivity,
            progress=progress,
        )
        del model
        quantized, report = fitted.model, fitted.report
        path = Path(scratch) / file.path.name
        onnx_file.save(quantized, path, external_above=0)
        onnx_file.leave_weights_in(path, quantized)
        reference = OnnxReference(original, threads, exact=False)
        reference.name = str(file.path)
        few = [] if given is None else given_cases(next(batches(given, quantized)), reference.inputs)
        parity = run_cases(
            path,
            reference,
            runtimes=runtimes,
            settings=file.settings,
            further=few,
            tolerances=Tolerances(relative_l2=allowed),
            seed=seed,
            threads=threads,
            for_each_run=True,
            progress=progress,
        )
        onnx_file.read_weights_in(quantized, Path(scratch))
    notes = parity.notes if samples is not None else (*parity.notes, DRAWN)
    return Quantized(quantized, report, replace(parity, notes=notes), file.settings, fitted.measured, budget)


def _in_files(path: Path, model: ir.Model, scratch: Path) -> tuple[Path, ir.Model]:
    """Return a model whose weights are mapped from a file and take no memory, and its path; as it is if they are."""
    if onnx_file.weight_bytes(model) > path.stat().st_size:  # they are beside it
        return path, model
    copy = scratch / "original" / path.name
    onnx_file.save(model, copy, external_above=0)
    return copy, onnx_file.load(copy)
