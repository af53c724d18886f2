"""The Python API: each function one verb, for modules in memory as well as for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export.bundle.build import Build, BuildOptions, Progress
from ffn_export.bundle.build import build as _build
from ffn_export.bundle.publish import place
from ffn_export.choosing import tune
from ffn_export.errors import GateError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.tensor_spec import InputSpecs
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.report import SiteKind
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import asked_sizes
from ffn_export.modules.presets import create
from ffn_export.parity.after_fusing.check import fuse
from ffn_export.parity.references import graph_inputs
from ffn_export.quantization.options import DEFAULT_BUDGET, QuantizationOptions
from ffn_export.quantizing import quantize
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.subjects import Against, Model, Subject, as_source, evaluating, known_source, opened
from ffn_export.tuning.options import TuneOptions
from ffn_export.verifying import bisect, verify

__all__ = ["bench", "bisect", "build", "create", "export", "fuse", "quantize", "tune", "verify"]


def export(
    module: Subject,
    inputs: InputSpecs | None = None,
    *,
    samples: Mapping[str, Any] | None = None,
    opset: int = DEFAULT_OPSET,
    dtype: str = "float32",
    keep_io: bool = False,
    name: str | None = None,
    seed: int | None = None,
    task: str | None = None,
    trust: bool = False,
) -> ir.Model:
    """Export a module, or what a SPEC names, to a checked ONNX model with dynamic axes.

    Args:
        module: A ``torch.nn.Module``, or a SPEC: a preset's name, ``package.module:factory``, ``hf:DIR``, a ``.pt2``.
        inputs: Input name -> ``"float32[batch,seq,768]"``; all but a module and a factory know their own.
        samples: Arrays by input name to trace with, where drawn ones would not do.
        opset: Version of the default operator set, 18 or higher.
        dtype: ``float32``, ``float16``, ``bfloat16`` or ``mixed``, which computes matrix products in float16.
        keep_io: Keep the graph's inputs and outputs in float32.
        name: Name of the graph.
        seed: Seed of the weights of a SPEC; None means the preset's own, else 0.
        task: What a model directory is exported for, such as ``fill-mask``; None means what its configuration says.
        trust: Whether to open a ``.pt2`` file, which can run code.

    Raises:
        UsageError: If the SPEC or the inputs do not parse or do not fit.
        ExportError: If the module cannot be exported as asked.
    """
    source = as_source(
        module, inputs, samples, name=name, seed=seed, task=task, dtype=dtype, keep_io=keep_io, trust=trust
    )
    return export_source(source, opset)


def bench(
    model: Model,
    against: Subject | None = None,
    *,
    inputs: InputSpecs | None = None,
    sizes: Sequence[Mapping[str, int]] | None = None,
    tokens: Sequence[int] | None = None,
    runtimes: Sequence[str] | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    seed: int | None = None,
    task: str | None = None,
    trust: bool = False,
    threads: int | None = None,
    progress: Progress = lambda line: None,
) -> LatencyResult:
    """Time a model on runtimes, in turn with its PyTorch module where there is one.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: The module or SPEC that it comes from; None for a bundle means its preset, or with ``trust``
            the source that its manifest names.
        inputs: Inputs of the module; None means those of the graph, or what the SPEC knows itself.
        sizes: Sizes of the symbolic axes, one mapping a measurement; None means three typical ones.
        tokens: In place of sizes, lengths of the one sequence to time, moved into the bounds of its axis; one a
            measurement.
        runtimes: Names of runtimes to time; None means every one that can run it here.
        dtype: As for :func:`verify`.
        keep_io: As for :func:`verify`.
        seed: Seed of the weights of a SPEC.
        task: As for :func:`export`.
        trust: As for :func:`verify`.
        threads: Intra-op threads of every competitor.
        progress: Called with a line for each set of sizes.

    Raises:
        UsageError: If something named does not exist or does not parse, sizes and tokens are both given, or there
            is no axis for tokens.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    asked = Against(against, inputs, seed, dtype, keep_io, task, trust)
    with opened(model) as file:
        source, why = known_source(file, asked)
        specs = source.inputs if source else graph_inputs(onnx_file.load(file.path))
        with evaluating(source):
            result = measure(
                Artifact(file.path, source, file.settings),
                specs,
                asked_sizes(specs, sizes, tokens, source.example if source else None),
                runtimes=runtimes,
                threads=chosen_threads(threads),
                progress=progress,
            )
    return result if why is None else replace(result, unavailable={**result.unavailable, "torch": why})


def build(
    module: Subject,
    inputs: InputSpecs | None = None,
    *,
    samples: Mapping[str, Any] | None = None,
    directory: Path | str = "exported",
    name: str | None = None,
    target: str = "ort-cpu",
    opset: int = DEFAULT_OPSET,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    seed: int | None = None,
    max_ratio: float | None = None,
    require_fusion: Mapping[SiteKind, int] | None = None,
    outline: bool = False,
    portable_functions: bool = False,
    dtype: str = "float32",
    keep_io: bool = False,
    task: str | None = None,
    trust: bool = False,
    bench_budget: float = 1.5,
    check: bool = True,
    quantization: QuantizationOptions | None = None,
    budget: float | None = None,
    forms: Forms | None = None,
    tuning: TuneOptions | None = None,
    progress: Progress = lambda line: None,
) -> Build:
    """Export, fuse, verify, time, and write a bundle to ``directory/name``.

    Args:
        module: A ``torch.nn.Module`` or a SPEC.
        inputs: As for :func:`export`.
        samples: Arrays by input name, to trace with and to verify on besides what is drawn.
        directory: Where bundles go.
        name: Name of the bundle; None means the preset's, factory's, directory's or class's.
        target: What to fuse for.
        opset: Opset of the export; fusing may raise it.
        runtimes: Runtimes that must judge it; None means all that can.
        threads: Intra-op threads; None means the processors that this process may run on.
        seed: Seed of the weights of a SPEC and of the drawn inputs.
        max_ratio: Largest allowed median time over PyTorch's; None means latency is no gate.
        require_fusion: Kind of site -> how many must be fused.
        outline: Make each feed-forward one node, of a model-local function.
        portable_functions: Give the operators of ``com.microsoft`` bodies in standard operators.
        dtype: As for :func:`export`.
        keep_io: As for :func:`export`.
        task: As for :func:`export`.
        trust: As for :func:`export`.
        bench_budget: Seconds of timed runs for each competitor and set of sizes; 0 leaves the timing out.
        check: Whether the exported and the fused graph are run and compared, and what differs is undone.
        quantization: How weights are stored in few bits; None leaves them as they are.
        budget: Declared relative L2 error of an output; None means 0.02 for a quantised model and for others the
            bound in units of the last place. One that tuning stored in 8 bits keeps the budget of ``tuning``, too.
        forms: The forms that are used of those which the target leaves open; None means what the table of costs says.
        tuning: How forms, session options and, with a budget, how weights are stored are chosen by measuring; None does
            not. It excludes ``quantization``.
        progress: Called with a line for each step.

    Raises:
        GateError: If fusion, parity or latency fails its gate; a bundle that was there stays.
        ExportError: If the module cannot be exported as asked.
        UsageError: If the destination cannot be written, or something named does not exist.
    """
    source = as_source(
        module, inputs, samples, name=name, seed=seed, task=task, dtype=dtype, keep_io=keep_io, trust=trust
    )
    options = BuildOptions(
        target,
        opset,
        runtimes,
        threads,
        seed or 0,
        max_ratio,
        require_fusion or {},
        bench_budget=bench_budget,
        check=check,
        outline=outline,
        portable_functions=portable_functions,
        quantization=quantization,
        budget=DEFAULT_BUDGET if budget is None and quantization is not None else budget,
        forms=forms,
        tuning=tuning,
    )
    destination = place(Path(directory), source.name if name is None else name)
    with evaluating(source):
        result = _build(source, destination, options, progress)
    if not result.passed:
        raise GateError(f"{source.name} was not built: {result.failures[0]}", result)
    return result
