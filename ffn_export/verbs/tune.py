"""``tune``: chooses forms, session options and precision by timing them on this machine, for a model or a bundle."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from ffn_export.bundle.build import Build, build_bundle
from ffn_export.bundle.build_options import BuildOptions
from ffn_export.calibration.precise_nodes import in_precision
from ffn_export.core import onnx_file
from ffn_export.core.shown import Shown
from ffn_export.core.types import Progress, silent
from ffn_export.errors import GateError, UsageError
from ffn_export.fusion.functions import portable
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion.targets import NATIVE, get_target
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.reference.references import graph_inputs
from ffn_export.quantization.quantize import quantize_some
from ffn_export.quantization.result import QuantizationReport
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.ort_native import of_lower_precision, of_precision
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.tuning.final_check import own_gate
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.result import TuningResult
from ffn_export.tuning.search import check, search
from ffn_export.verbs.compared import source_of
from ffn_export.verbs.open_model import Model, opened
from ffn_export.verbs.source_spec import SourceSpec, evaluating


@dataclass(frozen=True)
class Tuned(Shown):
    """A tuned model.

    Attributes:
        model: The tuned model.
        settings: Session options to run it with.
        tuning: The trials, and the reason for the choice.
        fusion: Status of each site.
        parity: Verification against the given model.
        quantization: Result for each matrix, if 8-bit weights were chosen.

    Examples:
        >>> tuned = fx.tune("model.onnx", options=fx.TuneOptions(tokens=(16,), seconds=0.001), threads=1)
        >>> tuned.tuning.target
        'ort-cpu'
    """

    model: ir.Model
    settings: SessionSettings
    tuning: TuningResult
    fusion: FusionReport
    parity: ParityResult
    quantization: QuantizationReport | None = None

    @property
    def passed(self) -> bool:
        """Whether the tuned model passed its verification against the given model."""
        return self.parity.passed


def tune(
    model: Model,
    target: str = "ort-cpu",
    options: TuneOptions | None = None,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> Tuned:
    """Choose the forms of a model's sites and its session options by timing them on this machine.

    Args:
        model: An ONNX model in memory or an ``.onnx`` file, preferably as exported; it is not modified.
        target: ``ort-cpu``, ``ort-cuda``, or ``ort-native``, of which it chooses the precision.
        options: Numbers of tokens, timing budget, and whether 8-bit weights are allowed.
        threads: Intra-op threads; None means the number of processors available to this process.
        progress: Called with a line for each trial.

    Raises:
        UsageError: If the model does not exist, or the target has nothing to choose.
        RuntimeUnavailableError: If the target's runtime is not available here.

    Examples:
        >>> options = fx.TuneOptions(tokens=(16,), seconds=0.001)
        >>> tuned = fx.tune("model.onnx", options=options, threads=1)
        >>> tuned.passed
        True
    """
    options = options or TuneOptions()
    threads = chosen_threads(threads)
    with opened(model) as file, tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        exported = file.load()
        check(target)
        gate = own_gate(file.path, options, threads)
        tuning = search(exported, target, options, gate=gate, threads=threads, progress=progress)
        chosen = tuning.chosen
        made, fusion = fuse_checked(exported, target, forms=chosen.forms, threads=threads)
        quantized = None
        if chosen.quantization is not None:
            made, quantized = quantize_some(made, chosen.quantization)
        if of_lower_precision(chosen.precision) is not None:
            made = in_precision(made, chosen.precision, chosen.raised, gate.feeds(graph_inputs(exported)), threads)
        path = Path(scratch) / file.path.name
        onnx_file.save(made, path)
        judges = None if chosen.precision is None else (OrtCpu.name, of_precision(chosen.precision).name)
        parity = gate.verify(path, chosen, runtimes=judges, threads=threads, progress=progress)
        return Tuned(made, chosen.settings, tuning, fusion, parity, quantized)


def tune_bundle(
    directory: Path,
    options: TuneOptions | None = None,
    *,
    destination: Path | None = None,
    threads: int | None = None,
    trust: bool = False,
    progress: Progress = silent,
) -> Build:
    """Build a bundle again from its source, in the form that is fastest on this machine.

    The tuned bundle keeps the target, opset, seed, budget and functions of the bundle. Candidates are timed without
    functions, since a runtime inlines them.

    Args:
        directory: The bundle.
        options: As for :func:`tune`.
        destination: Directory of the tuned bundle; None replaces the bundle.
        threads: As for :func:`tune`.
        trust: Whether to import the source named in the manifest, if it is not a preset.
        progress: Called with a line for each step.

    Raises:
        UsageError: If the source cannot be resolved here or is not trusted, the target has nothing to choose, or the
            bundle is quantised.
        GateError: If the tuned bundle fails a quality gate; the existing bundle stays in place.
    """
    options = options or TuneOptions()
    with opened(directory) as file:
        assert file.manifest is not None
        manifest = file.manifest
        source = source_of(file, SourceSpec(trust=trust))
        made = file.load()
    if manifest.variants:
        raise UsageError(
            f"{directory} has a graph for each of {len(manifest.graphs)} kinds of processor: tune the bundles that it "
            "was joined from, each on its kind, and join them again"
        )
    if source is None:
        raise UsageError(
            f"{directory} was built from a module that only its program has: pass that to fx.build(…, "
            f"tuning=fx.TuneOptions()), or tune {directory / 'model.onnx'}"
        )
    if not get_target(manifest.target).is_tunable:
        raise UsageError(
            f"{directory} was built for {manifest.target}, which has one form of each site, so nothing to tune: "
            f"ffn-export tune {manifest.source['spec']} makes one for ort-cpu"
        )
    if manifest.quantization is not None:
        raise UsageError(f"{directory} is quantized already: tune a bundle of plain weights with --budget")
    budget = manifest.tolerances.get("relative_l2")
    if manifest.target == NATIVE:  # a budget is for the precision, which is chosen again
        options, budget = replace(options, budget=options.budget or budget), None
    build_options = BuildOptions(
        manifest.target,
        manifest.opset_imports[""],
        threads=threads,
        seed=manifest.source["seed"],
        portable_functions=portable.are_in(made),
        bench_budget=options.bench_budget,
        budget=budget,
        tuning=options,
    )
    with evaluating(source):
        result = build_bundle(source, (destination or directory).absolute(), build_options, progress)
    if not result.passed:
        raise GateError(f"{source.name} was not built: {result.failures[0]}", result)
    return result
