"""Build a bundle: export, fuse, verify, time, and publish it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export import __version__
from ffn_export.bundle import companions, describe, integrity, publish, results
from ffn_export.bundle.build_options import BuildOptions
from ffn_export.bundle.manifest import MODEL, Manifest
from ffn_export.calibration.precise_nodes import in_precision, keep_budget
from ffn_export.calibration.statistics import batches, drawn_inputs
from ffn_export.calibration.within_budget import Budget, fit
from ffn_export.core import onnx_file, processor, vectors
from ffn_export.core.drawing import draw_all
from ffn_export.core.shown import Shown
from ffn_export.core.steps import steps
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array, Progress, silent
from ffn_export.exporter.export import PRODUCER, export_source
from ffn_export.exporter.source import Source
from ffn_export.fusion.forms.choice import default_forms, for_few_bits
from ffn_export.fusion.pipeline import fusion_failures
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion.targets import get_target
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.inspection import facts
from ffn_export.inspection.site_graphs import site_graphs
from ffn_export.latency.gate import latency_failures
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import default_sizes, example_sizes
from ffn_export.parity.cases.case import given_cases, samples_of
from ffn_export.parity.cases.resampling import with_ranges
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.reference.references import TorchReference
from ffn_export.quantization.options import DRAWN
from ffn_export.quantization.result import QuantizationReport
from ffn_export.reports.formats import Verification
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_native import of_lower_precision
from ffn_export.runtimes.registry import get_runtimes
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.runtimes.torch_eager import torch_threads_kept
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.final_check import Gate
from ffn_export.tuning.result import TuningResult
from ffn_export.tuning.search import search


@dataclass(frozen=True)
class Build(Shown):
    """Result of a build.

    Attributes:
        directory: Directory of the bundle, whether or not it was written.
        fusion: Status of each site.
        parity: The verification; None if fusion failed its quality gate.
        latency: The timing; None if an earlier quality gate failed.
        quantization: Result for each matrix product; None without quantisation.
        tuning: Trials and choice of the tuning; None without tuning.
        manifest: Manifest of the bundle; None if a quality gate failed and nothing was written.
        failures: Reasons for failed quality gates, one line each.

    Examples:
        >>> built = fx.build("d2l-ffn", directory="bundles", fast=True)
        >>> built.failures
        ()
    """

    directory: Path
    fusion: FusionReport
    parity: ParityResult | None = None
    latency: LatencyResult | None = None
    quantization: QuantizationReport | None = None
    tuning: TuningResult | None = None
    manifest: Manifest | None = None
    failures: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every quality gate passed and the bundle was written."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; a result that is missing is None."""
        parts = {name: getattr(self, name) for name in ("fusion", "parity", "latency", "quantization", "tuning")}
        return {
            "directory": str(self.directory),
            "passed": self.passed,
            "failures": list(self.failures),
            "fast": self.parity is not None and self.parity.fast,
            **{name: None if part is None else part.to_dict() for name, part in parts.items()},
        }


@torch_threads_kept()
def build_bundle(
    source: Source,
    destination: Path,
    options: BuildOptions,
    progress: Progress = silent,
    *,
    exported: ir.Model | None = None,
    reference: TorchReference | None = None,
) -> Build:
    """Build a bundle at ``destination``. Only an existing bundle is replaced, nothing else.

    If a quality gate fails, nothing is written and an existing bundle stays in place.

    Args:
        source: The source to export.
        destination: Directory of the bundle.
        options: Options of the build.
        progress: Called with a line for each step.
        exported: The exported model, for a caller that builds one source for several targets; it is not modified.
        reference: A caching reference of the source, for the same caller.

    Raises:
        ExportError: If the module cannot be exported as requested.
        UsageError: If the destination cannot be written or holds something else, or a name is unknown.
        RuntimeUnavailableError: If a runtime requested by name cannot run here.
    """
    options.check_asked()
    get_target(options.target)
    get_runtimes(options.judges() or ())
    publish.check_destination(destination)
    with publish.staging(destination) as stage:
        result = _build_in(stage.directory, source, destination, options, progress, exported, reference)
        if result.passed:
            stage.publish()
    return result


def _build_in(
    stage: Path,
    source: Source,
    destination: Path,
    options: BuildOptions,
    progress: Progress,
    exported: ir.Model | None,
    reference: TorchReference | None,
) -> Build:
    threads = chosen_threads(options.threads)
    tried = ["tune"] if options.tuning is not None else []
    start = steps(["export", *tried, "fuse", "verify", *([] if options.fast else ["time"]), "write"], progress)
    progress = start("export")
    if exported is None:
        inputs = " ".join(f"{spec.name}:{spec}" for spec in source.inputs)
        progress(f"exporting {source.spec} to opset {options.opset}, inputs {inputs}")
        exported = export_source(source, options.opset)
    samples = source.samples or (None if options.tuning is None else options.tuning.samples)
    reference = reference or TorchReference(source, threads)
    given = given_cases(samples, source.inputs)
    real = samples_of(given)
    # A quantised model is judged on all samples while it is made. The cases show that it is not broken.
    if options.quantization is not None and real is not None:
        given = given_cases(next(batches(real, exported)), source.inputs)
    gate = Gate(reference, given, options.budget, _few_bits_budget(options), options.seed, options.fast)
    progress = start("tune") if tried else progress
    choice, tuning = _choose(exported, source, options, gate, threads, progress)
    options = _as_chosen(options, choice, gate)
    progress = start("fuse")
    progress(f"fusing for {options.target}")
    fused, fusion = fuse_checked(
        exported,
        options.target,
        options.check,
        portable_functions=options.portable_functions,
        forms=choice.forms,
        threads=threads,
    )
    built = Build(destination, fusion, tuning=tuning, failures=fusion_failures(fusion, options.require_fusion))
    if not built.passed:
        return built
    model, quantized = fused, None
    if choice.quantization is not None:
        fitted = fit(
            fused,
            choice.quantization,
            real,
            Budget(gate.few_bits_budget or choice.quantization.default_budget),
            threads,
            drawn=drawn_inputs(source.inputs, options.seed),
            progress=progress,
        )
        model, quantized = fitted.model, fitted.report
    if of_lower_precision(options.precision) is not None:
        model = in_precision(model, options.precision, choice.raised, gate.feeds(source.inputs), threads)
    _save(model, stage / MODEL, options)
    progress = start("verify")
    model, parity = _verified(model, stage / MODEL, options, source, gate, choice, threads, progress)
    if (quantized is not None or of_lower_precision(options.precision) is not None) and samples is None:
        parity = replace(parity, notes=(*parity.notes, DRAWN))
    built = replace(built, parity=parity, quantization=quantized, failures=parity.failures)
    if not built.passed:
        return built

    progress = progress if options.fast else start("time")
    is_timed = options.bench_budget > 0 and not options.fast
    latency = measure(
        Artifact(stage / MODEL, source, choice.settings),
        source.inputs,
        default_sizes(source.inputs, source.example) if is_timed else (),
        runtimes=options.judges(model),
        threads=threads,
        budget=options.bench_budget,
        exported=(lambda: exported) if is_timed else None,
        progress=progress,
    )
    built = replace(built, latency=latency, failures=latency_failures(latency, options.max_ratio))
    if not built.passed:
        return built

    start("write")("writing the bundle")
    source = _of_sampled_size(source, None if quantized is None and gate.few_bits_budget is None else real)
    companions.copy(source.companions, stage)
    _write_vectors(stage, source, reference, parity, options.seed)
    weights_bytes = onnx_file.weight_bytes(model)
    results.write(
        stage,
        Verification(
            parity,
            results.commands(source, destination.name, options),
            latency=latency,
            fusion=fusion,
            sites=site_graphs(exported, fused, fusion),
            tuning=tuning,
            weights_bytes=weights_bytes,
        ),
    )
    provider = describe.provider(options.target, parity, options.native)
    manifest = Manifest(
        name=destination.name,
        source=describe.describe_source(source),
        inputs=tuple(map(facts.describe_value, model.graph.inputs)),
        outputs=tuple(map(facts.describe_value, model.graph.outputs)),
        opset_imports=dict(model.opset_imports),
        target=options.target,
        provider=provider.name,
        provider_options=dict(provider.options),
        operators_outside_standard=facts.foreign_operators(model),
        weights_bytes=weights_bytes,
        fusion=describe.summarise_fusion(fusion),
        parity=describe.summarise_parity(parity),
        latency=describe.summarise_latency(latency),
        session_options=choice.settings,
        processor=processor.kind(),
        tolerances=parity.tolerances.to_dict(),
        environment=parity.environment.to_dict() if parity.environment else None,
        files=integrity.hash_files(stage),
        quantization=None if quantized is None else describe.summarise_quantization(quantized),
        tuning=None if tuning is None else describe.summarise_tuning(tuning),
        producer={"name": PRODUCER, "version": __version__},
    )
    manifest.write(stage)
    return replace(built, manifest=manifest)


def _save(model: ir.Model, path: Path, options: BuildOptions) -> None:
    onnx_file.save(model, path, external_above=0 if options.share_weights else onnx_file.EXTERNAL_ABOVE_BYTES)


def _verified(
    model: ir.Model,
    path: Path,
    options: BuildOptions,
    source: Source,
    gate: Gate,
    choice: Choice,
    threads: int,
    progress: Progress,
) -> tuple[ir.Model, ParityResult]:
    """Verify the model in a file; if native kernels miss their budget, give some nodes a higher precision."""
    judges = options.judges(model)
    verify = partial(gate.verify, path, choice, runtimes=judges, threads=threads, progress=progress)
    parity = verify()
    failing = {each.runtime for each in parity.cases if each.skipped is None and each.failure(parity.tolerances)}
    if options.native is None or options.budget is None or failing != {options.native.name}:
        return model, parity

    def passes(made: ir.Model) -> bool:
        _save(made, path, options)
        return verify().passed

    kept = keep_budget(model, options.native, gate.feeds(source.inputs), options.budget, threads, progress, passes)
    if kept is None:
        return model, parity
    _save(kept.model, path, options)
    parity = verify()
    return kept.model, replace(parity, notes=(*parity.notes, kept.told))


def _choose(
    exported: ir.Model, source: Source, options: BuildOptions, gate: Gate, threads: int, progress: Progress
) -> tuple[Choice, TuningResult | None]:
    """Return the forms, session options and quantisation to build with, and the tuning result, if any."""
    if options.tuning is None:
        forms = default_forms(get_target(options.target)) if options.forms is None else options.forms
        if options.quantization is not None:
            forms = for_few_bits(forms)
        settings = SessionSettings().without_packed_weights() if options.share_weights else SessionSettings()
        return Choice(forms, settings, options.quantization, options.precision), None
    tuned = search(
        exported,
        options.target,
        replace(options.tuning, samples=source.samples or options.tuning.samples),
        specs=source.inputs,
        gate=gate,
        threads=threads,
        progress=progress,
    )
    return tuned.chosen, tuned


def _as_chosen(options: BuildOptions, choice: Choice, gate: Gate) -> BuildOptions:
    """Return the options with the precision that tuning chose, and the budget that it was chosen within."""
    if options.tuning is None or of_lower_precision(choice.precision) is None:
        return options
    return replace(options, precision=choice.precision, budget=gate.few_bits_budget)


def _few_bits_budget(options: BuildOptions) -> float | None:
    """Return the budget of a model that computes in fewer bits: the smaller of the build's and the tuning's."""
    asked = (options.budget, None if options.tuning is None else options.tuning.budget)
    return min((budget for budget in asked if budget is not None), default=None)


def _of_sampled_size(source: Source, samples: Mapping[str, Array] | None) -> Source:
    """Return the source with inputs that are drawn as large as the samples, which the bundle does not hold.

    Bundles that are joined may hold models in fewer bits and in float32. Their inputs must be equal.
    """
    return source if samples is None else replace(source, inputs=with_ranges(source.inputs, samples))


def _write_vectors(stage: Path, source: Source, reference: TorchReference, parity: ParityResult, seed: int) -> None:
    """Write test vectors at the example's sizes, or if the module fails on them, at the first verified sizes."""
    passed = [case.sizes for case in parity.cases if case.skipped is None]
    for sizes in (example_sizes(source.inputs, source.example), *passed):
        inputs = draw_all(source.inputs, sizes, seed)
        try:
            evaluated = reference.evaluate(inputs)
        except Exception as error:  # noqa: BLE001 - a user's module may fail on these sizes; it ran on others
            expose_own(error)
            continue
        vectors.write(stage, inputs, {name: truth.astype(own.dtype) for name, (truth, own) in evaluated.items()})
        return
