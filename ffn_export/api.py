"""The Python API: each function one verb, for modules in memory as well as for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export.bundle import reduced
from ffn_export.bundle.build import Build, BuildOptions, Progress
from ffn_export.bundle.build import build as _build
from ffn_export.errors import GateError, UsageError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import check_samples
from ffn_export.exporter.tensor_spec import InputSpecs
from ffn_export.fusion.report import SiteKind
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import default_sizes
from ffn_export.modules.presets import create
from ffn_export.parity.after_fusing.check import fuse
from ffn_export.parity.bisection.bisect import bisect as _bisect
from ffn_export.parity.bisection.bisect import suspect_of
from ffn_export.parity.bisection.cases import to_try
from ffn_export.parity.bisection.reference_model import reference_model
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.cases import Case, as_feeds, given
from ffn_export.parity.cases import sweep as _sweep
from ffn_export.parity.evidence import AllOutputs, FailingInputs, Keeper
from ffn_export.parity.references import Reference, VectorReference, graph_inputs
from ffn_export.parity.result import ParityResult
from ffn_export.parity.tolerances import Tolerances
from ffn_export.parity.verify import verify as _verify
from ffn_export.quantizing import quantize
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.threads import available_threads
from ffn_export.subjects import Against, Model, Subject, as_source, evaluating, opened, reference_of, source_of

__all__ = ["bench", "bisect", "build", "create", "export", "fuse", "quantize", "verify"]


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

    Raises:
        UsageError: If the SPEC or the inputs do not parse or do not fit.
        ExportError: If the module cannot be exported as asked.
    """
    source = as_source(module, inputs, samples, name=name, seed=seed, task=task, dtype=dtype, keep_io=keep_io)
    return export_source(source, opset)


def verify(
    model: Model,
    against: Subject | Path | None = None,
    *,
    inputs: InputSpecs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    tolerances: Tolerances | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    seed: int | None = None,
    task: str | None = None,
    threads: int | None = None,
    jobs: int = 1,
    input_seed: int | None = None,
    sweep: bool = True,
    failures: Path | str | None = None,
    save_outputs: Path | str | None = None,
    progress: Progress = lambda line: None,
) -> ParityResult:
    """Verify that a model computes what its reference does, over a sweep of sizes and values.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: A module, a SPEC, or another ``.onnx`` file; None for a bundle means its source, or its
            test vectors where that cannot be imported.
        inputs: Inputs of the module; None means those of the graph, or what the SPEC knows itself.
        samples: Arrays by input name, verified besides what is drawn.
        runtimes: Names of runtimes that must judge it; None means every one that can run it here.
        tolerances: What is allowed; None means the defaults.
        dtype: The precision that the model was exported in, as for :func:`export`; a bundle knows its own.
        keep_io: As for :func:`export`.
        seed: Seed of the weights of a SPEC; a bundle has that of its own.
        task: As for :func:`export`.
        threads: Intra-op threads; None means the processors that this process may run on.
        input_seed: Seed of the drawn inputs; None means ``seed``, else 0.
        jobs: Cases that run at the same time, in threads of this process.
        sweep: Whether inputs are drawn; False verifies on ``samples`` alone.
        failures: Directory in which the inputs of failing cases are kept, as ONNX test vectors; None keeps none.
        save_outputs: Directory in which every case's inputs, oracle and outputs are kept; None keeps none.
        progress: Called with a line for each case.

    Raises:
        UsageError: If something named does not exist or does not parse.
        IntegrityError: If a bundle's files are not those of its manifest.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    threads = threads or available_threads()
    with opened(model) as file:
        reference = reference_of(file, Against(against, inputs, seed, dtype, keep_io, task), threads)
        drawn_with = seed if input_seed is None else input_seed
        cases = _cases(reference, samples, drawn_with or 0, sweep=sweep)
        kept = None if failures is None else FailingInputs(Path(failures), tolerances or Tolerances())
        keepers: list[Keeper] = [] if kept is None else [kept]
        if save_outputs is not None:
            keepers.append(AllOutputs(Path(save_outputs)))
        with evaluating(reference.source):
            result = _verify(
                file.path,
                reference,
                runtimes=runtimes,
                settings=file.settings,
                cases=cases,
                tolerances=tolerances,
                threads=threads,
                jobs=jobs,
                keepers=keepers,
                progress=progress,
            )
    if kept is not None and kept.problem is not None:
        result = replace(result, notes=(*result.notes, f"failing inputs are not kept: {kept.problem}"))
    return result


def _cases(reference: Reference, samples: Mapping[str, Any] | None, seed: int, *, sweep: bool) -> list[Case]:
    """Return the cases: drawn ones, or a bundle's test vectors where they are all there is; and the caller's."""
    drawn = [reference.case] if isinstance(reference, VectorReference) else []
    if sweep and not drawn:
        drawn = _sweep(reference.inputs, reference.example, seed)
    if samples is None:
        if not sweep:
            raise UsageError("without a sweep there is nothing to verify on: give samples")
        return drawn
    check_samples(tuple(reference.inputs), as_feeds(samples))
    return [*(drawn if sweep else []), given(as_feeds(samples), reference.inputs)]


def bisect(
    model: Model,
    against: Subject | Path | None = None,
    *,
    inputs: InputSpecs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtime: str | None = None,
    tolerances: Tolerances | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    seed: int | None = None,
    task: str | None = None,
    threads: int | None = None,
    result: ParityResult | None = None,
    reduce_to: Path | str | None = None,
    progress: Progress = lambda line: None,
) -> Bisection:
    """Find the node with which a model first differs from its reference.

    Each node, or fused site, runs alone on the numbers of the reference's unfused graph, so its own error is told
    from what it inherits.

    Args:
        model: As for :func:`verify`.
        against: As for :func:`verify`; test vectors alone do not tell what is inside.
        inputs: As for :func:`verify`.
        samples: As for :func:`verify`.
        runtime: The runtime to ask about; None means the first on which a case failed, or ``ort-cpu``.
        tolerances: What a node's own error is allowed to be; None means what the result was judged by.
        dtype: As for :func:`verify`.
        keep_io: As for :func:`verify`.
        seed: As for :func:`verify`.
        task: As for :func:`verify`.
        threads: As for :func:`verify`.
        result: What :func:`verify` found, with the same arguments: the cases that failed are those to look at. None
            verifies first.
        reduce_to: Directory for the smallest part that fails: ``model.onnx``, ``reference.onnx``, test vectors.
        progress: Called with a line for each case.

    Raises:
        UsageError: If something named does not exist or does not parse, or the directory holds other files.
        ExportError: If the source cannot be exported again.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    threads = threads or available_threads()
    if reduce_to is not None:
        reduced.check_destination(Path(reduce_to))
    if result is None:
        result = verify(
            model, against, inputs=inputs, samples=samples, runtimes=None if runtime is None else [runtime],
            tolerances=tolerances, dtype=dtype, keep_io=keep_io, seed=seed, task=task, threads=threads,
            progress=progress,
        )  # fmt: skip
    with opened(model) as file:
        reference = reference_of(file, Against(against, inputs, seed, dtype, keep_io, task), threads)
        suspect = suspect_of(file.path, file.settings, result, runtime)
        arrays = None if samples is None else as_feeds(samples)
        with evaluating(reference.source):
            found, part = _bisect(
                suspect,
                reference,
                reference_model(reference, onnx_file.load(file.path)),
                to_try(result, suspect.runtime.name, reference.inputs, arrays, seed or 0),
                tolerances=tolerances or result.tolerances,
                threads=threads,
                reduce=reduce_to is not None,
                progress=progress,
            )
    if part is not None and reduce_to is not None:
        reduced.write(part, Path(reduce_to))
    return found


def bench(
    model: Model,
    against: Subject | None = None,
    *,
    inputs: InputSpecs | None = None,
    sizes: Sequence[Mapping[str, int]] | None = None,
    runtimes: Sequence[str] | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    seed: int | None = None,
    task: str | None = None,
    threads: int | None = None,
    progress: Progress = lambda line: None,
) -> LatencyResult:
    """Time a model on runtimes, in turn with its PyTorch module where there is one.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: The module or SPEC that it comes from; None for a bundle means its source.
        inputs: Inputs of the module; None means those of the graph, or what the SPEC knows itself.
        sizes: Sizes of the symbolic axes, one mapping a measurement; None means three typical ones.
        runtimes: Names of runtimes to time; None means every one that can run it here.
        dtype: As for :func:`verify`.
        keep_io: As for :func:`verify`.
        seed: Seed of the weights of a SPEC.
        task: As for :func:`export`.
        threads: Intra-op threads of every competitor.
        progress: Called with a line for each set of sizes.

    Raises:
        UsageError: If something named does not exist or does not parse.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    with opened(model) as file:
        source = source_of(file, Against(against, inputs, seed, dtype, keep_io, task))
        specs = source.inputs if source else graph_inputs(onnx_file.load(file.path))
        with evaluating(source):
            return measure(
                Artifact(file.path, source, file.settings),
                specs,
                sizes if sizes is not None else default_sizes(specs, source.example if source else None),
                runtimes=runtimes,
                threads=threads or available_threads(),
                progress=progress,
            )


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
    bench_budget: float = 1.5,
    check: bool = True,
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
        bench_budget: Seconds of timed runs for each competitor and set of sizes; 0 leaves the timing out.
        check: Whether the exported and the fused graph are run and compared, and what differs is undone.
        progress: Called with a line for each step.

    Raises:
        GateError: If fusion, parity or latency fails its gate; a bundle that was there stays.
        ExportError: If the module cannot be exported as asked.
        UsageError: If the destination cannot be written, or something named does not exist.
    """
    source = as_source(module, inputs, samples, name=name, seed=seed, task=task, dtype=dtype, keep_io=keep_io)
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
    )
    with evaluating(source):
        result = _build(source, Path(directory) / (name or source.name), options, progress)
    if not result.passed:
        raise GateError(f"{source.name} was not built: {result.failures[0]}", result)
    return result
