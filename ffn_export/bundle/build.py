"""The main job as one call: export, fuse, verify, time, and put the bundle in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from ffn_export.bundle import companions, describe, integrity, publish, results
from ffn_export.bundle.manifest import MODEL, Manifest
from ffn_export.errors import UsageError
from ffn_export.exporter import onnx_file, vectors
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.drawing import draw_all
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source
from ffn_export.fusion.decisions import default_forms, for_few_bits
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.pipeline import fusion_failures
from ffn_export.fusion.report import FusionReport, SiteKind
from ffn_export.fusion.targets import get_target
from ffn_export.inspection import facts
from ffn_export.inspection.site_graphs import site_graphs
from ffn_export.latency.gate import check_ratio, latency_failures
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import default_sizes, example_sizes
from ffn_export.parity.after_fusing.check import fuse
from ffn_export.parity.cases import whole
from ffn_export.parity.references import TorchReference
from ffn_export.parity.result import ParityResult
from ffn_export.parity.tolerances import check_budget
from ffn_export.quantization.options import DRAWN, QuantizationOptions
from ffn_export.quantization.quantize import quantize_some
from ffn_export.quantization.result import QuantizationReport
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.runtimes.torch_eager import torch_threads_kept
from ffn_export.strict import expose_own
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.gate import Gate
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.result import TuningResult
from ffn_export.tuning.tune import check as check_tuning
from ffn_export.tuning.tune import tune

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Build:
    """What a build found, and where its bundle is.

    Attributes:
        directory: The bundle, or where it would be.
        fusion: What became of each site.
        parity: The verification; None where fusion failed its gate.
        latency: The timing; None where an earlier gate failed.
        quantization: What became of each product, where weights were to be stored in few bits.
        tuning: What was tried, where the form was to be chosen by measuring.
        manifest: The manifest of the bundle; None where a gate failed and nothing was written.
        failures: Why gates failed, one line each.
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
        """Whether every gate passed and the bundle is in its place."""
        return not self.failures


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build.

    Attributes:
        target: What to fuse for.
        opset: Opset of the export; fusing may raise it.
        runtimes: Runtimes that must judge it; None means all that can.
        threads: Intra-op threads; None means the processors that this process may run on.
        seed: Seed of the drawn inputs.
        max_ratio: Largest allowed median time over PyTorch's; None means latency is no gate.
        require_fusion: Kind of site -> how many must be fused.
        bench_budget: Seconds of timed runs for each competitor and set of sizes; 0 leaves the timing out.
        check: Whether the exported and the fused graph are run and compared, and what differs is undone.
        outline: Make each feed-forward one node.
        portable_functions: Give the operators of ``com.microsoft`` bodies in standard operators.
        quantization: How weights are stored in few bits; None leaves them as they are.
        budget: Declared relative L2 error of an output; None means the bound in units of the last place.
        forms: The forms that are used of those which the target leaves open; None means what the table of costs says.
        tuning: How the forms and the session options are chosen by measuring; None does not.

    Raises:
        UsageError: If the ratio or the budget is no finite number above 0.
    """

    target: str = "ort-cpu"
    opset: int = DEFAULT_OPSET
    runtimes: Sequence[str] | None = None
    threads: int | None = None
    seed: int = 0
    max_ratio: float | None = None
    require_fusion: Mapping[SiteKind, int] = field(default_factory=dict)
    bench_budget: float = 1.5
    check: bool = True
    outline: bool = False
    portable_functions: bool = False
    quantization: QuantizationOptions | None = None
    budget: float | None = None
    forms: Forms | None = None
    tuning: TuneOptions | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_budget(self.budget)
        if self.max_ratio is not None:
            check_ratio(self.max_ratio)


@torch_threads_kept()
def build(
    source: Source,
    destination: Path,
    options: BuildOptions,
    progress: Progress = lambda line: None,
    *,
    exported: ir.Model | None = None,
    reference: TorchReference | None = None,
) -> Build:
    """Build a bundle at ``destination``, replacing one that is there and nothing else.

    When a gate fails, nothing is written, and a bundle that was there stays.

    Args:
        source: What to export.
        destination: The bundle's directory.
        options: How to build it.
        progress: Called with a line for each step.
        exported: What exporting the source gave already, for a caller that builds it for several targets; it is
            left unchanged.
        reference: The source as a reference that remembers, for such a caller too.

    Raises:
        ExportError: If the module cannot be exported as asked.
        UsageError: If the destination cannot be written or holds something else, or a name is unknown.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    get_target(options.target)
    tries_few_bits = options.tuning is not None and options.tuning.budget is not None
    if options.outline and (options.quantization is not None or tries_few_bits):
        raise UsageError("a feed-forward that is one node keeps its weights as they are: leave --outline or --bits out")
    if options.tuning is not None:
        check_tuning(options.target, options.tuning)
        if options.quantization is not None:
            raise UsageError("tuning chooses how weights are stored: give it a budget and leave quantization out")
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
    if exported is None:
        progress(f"exporting {source.spec} to opset {options.opset}")
        exported = export_source(source, options.opset)
    samples = source.samples or (None if options.tuning is None else options.tuning.samples)
    cases = whole(source.inputs, source.example, samples, options.seed)
    reference = reference or TorchReference(source, threads)
    gate = Gate(reference, cases, options.budget, _few_bits_budget(options))
    choice, tuning = _choose(exported, source, options, gate, threads, progress)
    progress(f"fusing for {options.target}")
    fused, fusion = fuse(
        exported,
        options.target,
        options.check,
        outline=options.outline,
        portable_functions=options.portable_functions,
        forms=choice.forms,
        threads=threads,
    )
    failures = fusion_failures(fusion, options.require_fusion)
    if failures:
        return Build(destination, fusion, tuning=tuning, failures=failures)
    model, quantized = (fused, None) if choice.quantization is None else quantize_some(fused, choice.quantization)
    onnx_file.save(model, stage / MODEL)

    parity = gate.verify(stage / MODEL, choice, runtimes=options.runtimes, threads=threads, progress=progress)
    if quantized is not None and samples is None:
        parity = replace(parity, notes=(*parity.notes, DRAWN))
    if not parity.passed:
        return Build(destination, fusion, parity, quantization=quantized, tuning=tuning, failures=parity.failures)

    latency = measure(
        Artifact(stage / MODEL, source, choice.settings),
        source.inputs,
        default_sizes(source.inputs, source.example) if options.bench_budget else (),
        runtimes=options.runtimes,
        threads=threads,
        budget=options.bench_budget,
        progress=progress,
    )
    failures = latency_failures(latency, options.max_ratio)
    if failures:
        return Build(destination, fusion, parity, latency, quantized, tuning, failures=failures)

    companions.copy(source.companions, stage)
    _write_vectors(stage, source, reference, parity, options.seed)
    beside = results.Companions(latency, fusion, site_graphs(exported, fused, fusion), tuning)
    results.write(stage, parity, beside, _commands(source, destination.name, options))
    provider = describe.provider(options.target, parity)
    manifest = Manifest(
        name=destination.name,
        source=describe.describe_source(source),
        inputs=tuple(map(facts.describe_value, model.graph.inputs)),
        outputs=tuple(map(facts.describe_value, model.graph.outputs)),
        opset_imports=dict(model.opset_imports),
        target=options.target,
        provider=provider,
        provider_options=describe.provider_options(provider),
        operators_outside_standard=facts.foreign_operators(model),
        weights_bytes=onnx_file.weight_bytes(model),
        fusion=describe.summarise_fusion(fusion),
        parity=describe.summarise_parity(parity),
        latency=describe.summarise_latency(latency),
        session_options=choice.settings,
        tolerances=parity.tolerances.to_dict(),
        environment=parity.environment.to_dict() if parity.environment else None,
        files=integrity.hash_files(stage),
        quantization=None if quantized is None else describe.summarise_quantization(quantized),
        tuning=None if tuning is None else describe.summarise_tuning(tuning),
    )
    manifest.write(stage)
    return Build(destination, fusion, parity, latency, quantized, tuning, manifest)


def _choose(
    exported: ir.Model,
    source: Source,
    options: BuildOptions,
    gate: Gate,
    threads: int,
    progress: Progress,
) -> tuple[Choice, TuningResult | None]:
    """Return the forms, session options and bits to build with, and what was measured for that."""
    if options.tuning is None:
        forms = default_forms(get_target(options.target)) if options.forms is None else options.forms
        if options.quantization is not None:
            forms = for_few_bits(forms)
        return Choice(forms, SessionSettings(), options.quantization), None
    tuned = tune(
        exported,
        options.target,
        options.tuning,
        specs=source.inputs,
        gate=gate,
        outline=options.outline,
        threads=threads,
        progress=progress,
    )
    return tuned.chosen, tuned


def _few_bits_budget(options: BuildOptions) -> float | None:
    """Return the error that few bits may make. What tuning may spend on them is none for a model without them."""
    asked = (options.budget, None if options.tuning is None else options.tuning.budget)
    return min((budget for budget in asked if budget is not None), default=None)


def _commands(source: Source, name: str, options: BuildOptions) -> tuple[str, ...]:
    seed = ("--seed", str(options.seed)) if options.seed else ()
    quantization = () if options.quantization is None else options.quantization.command_line()
    if options.tuning is not None:
        words = options.tuning.command_line()
        return results.commands(source, name, "tune", options.target, options.opset, (*seed, *words))
    budget = () if options.budget is None else ("--budget", f"{options.budget:g}")
    flags = {
        "--outline": options.outline,
        "--portable-functions": options.portable_functions,
        "--no-check": not options.check,
    }
    words = (*quantization, *budget, *(flag for flag, is_on in flags.items() if is_on))
    return results.commands(source, name, "build", options.target, options.opset, (*seed, *words))


def _write_vectors(stage: Path, source: Source, reference: TorchReference, parity: ParityResult, seed: int) -> None:
    """Write test vectors at the example's sizes, or at the first that the module took where it refuses those."""
    passed = [case.sizes for case in parity.cases if case.skipped is None]
    for sizes in (example_sizes(source.inputs, source.example), *passed):
        inputs = draw_all(source.inputs, sizes, seed)
        try:
            evaluated = reference.evaluate(inputs)
        except Exception as error:  # noqa: BLE001 - a user's module refuses these sizes; it took others
            expose_own(error)
            continue
        vectors.write(stage, inputs, {name: truth.astype(own.dtype) for name, (truth, own) in evaluated.items()})
        return
