"""Time PyTorch and runtimes in turn, in one process, with equal threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.types import Array, Progress, silent
from ffn_export.core.words import size_label
from ffn_export.errors import FfnExportError, RuntimeUnavailableError, UsageError, did_you_mean
from ffn_export.latency.ceilings import ceilings
from ffn_export.latency.competitors import Call, Competitor, prepare
from ffn_export.latency.host import Host
from ffn_export.latency.interleaving import interleave
from ffn_export.latency.result import LatencyResult, Measurement
from ffn_export.latency.sessions import add_sessions
from ffn_export.latency.sizes import token_count
from ffn_export.latency.statistics import ratios, ratios_over_default, summarise
from ffn_export.latency.work import work
from ffn_export.runtimes import environment
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.default_session import default_session
from ffn_export.runtimes.registry import RUNTIMES, get_runtime, get_runtimes
from ffn_export.runtimes.torch_eager import torch_threads_kept

BASELINE = "torch"
Exported = Callable[[], ir.Model | None]


@torch_threads_kept()
def measure(
    artifact: Artifact,
    specs: Sequence[TensorSpec],
    sizes: Sequence[Mapping[str, int]],
    *,
    runtimes: Sequence[str] | None = None,
    threads: int = 1,
    budget: float = 1.5,
    exported: Exported | None = None,
    progress: Progress = silent,
) -> LatencyResult:
    """Time a model on runtimes, its PyTorch source if it has one, and ONNX Runtime's default session on the export.

    A runtime on a device with its own memory is timed twice in the same rounds: without copies, with inputs and outputs
    on the device; and with copies, from arrays on the host to arrays on the host.

    Args:
        artifact: The model, its source and its session options.
        specs: Inputs of the model.
        sizes: Sizes of the symbolic dimensions, one entry a measurement; moved into the axes' bounds.
        runtimes: Names of the runtimes; None means all that are timed by default and can run the model here.
        threads: Intra-op threads of every competitor.
        budget: Seconds of timed runs for each competitor and set of sizes.
        exported: Returns the model as it was exported, or None; called if a runtime with a default session is timed.
            None leaves that session out.
        progress: Called with a line for each set of sizes.

    Raises:
        UsageError: If a size names an axis that no input has.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    model = None if artifact.model_path is None else onnx_file.load(artifact.model_path)
    weight_bytes = 0 if model is None else onnx_file.weight_bytes(model)
    loaded, unavailable = _load(artifact, runtimes, threads, weight_bytes, exported)
    baseline = BASELINE if Competitor(BASELINE) in loaded else ""
    host = Host()
    dims = list(merge_dims(specs).values())
    _check_names(sizes, [dim.name for dim in dims])
    fitted = [fit_sizes(dims, {dim.name: wanted.get(dim.name, 1) for dim in dims}) for wanted in sizes]
    measurements = []
    for one in [s for index, s in enumerate(fitted) if loaded and s not in fitted[:index]]:
        feeds = draw_all(specs, one, seed=0)
        label = size_label(one)
        calls, refusals = _ready(loaded, feeds)
        unavailable |= {f"{who.label} at {label}": reason for who, reason in refusals.items()}
        if not calls:
            continue
        progress(f"timing {', '.join(competitor.label for competitor in calls)} at {label}")
        since = host.read()
        runs = interleave(calls, budget)
        lost, stolen = host.lost(since), host.stolen(since.ticks)
        measurements.append(
            Measurement(
                one,
                tuple(
                    summarise(who, times, accelerated=_is_accelerated(loaded[replace(who, copies=False)][0]))
                    for who, times in runs.items()
                ),
                ratios(runs, baseline, lost),
                None if model is None else work(model, _graph_sizes(model, feeds)),
                token_count(specs, one),
                stolen,
                ratios_over_default(runs, lost),
            )
        )
    return LatencyResult(
        artifact.model_path.name if artifact.model_path else BASELINE,
        baseline,
        tuple(measurements),
        unavailable,
        environment.current(threads),
        None if model is None or not measurements else ceilings(threads, weight_bytes, _reached(measurements)),
    )


def _reached(measurements: Sequence[Measurement]) -> float:
    """Return the most operations in a second that a competitor did on the processor."""
    return max(
        (
            each.work.operations / timing.median
            for each in measurements
            if each.work is not None
            for timing in each.timings
            if not timing.accelerated and timing.median > 0
        ),
        default=0.0,
    )


def _graph_sizes(model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Return the sizes of the graph's symbolic dimensions, whose names may differ from the source's."""
    return {
        str(dim.value): size
        for value in model.graph.inputs
        if value.name in feeds and value.shape is not None
        for dim, size in zip(value.shape, feeds[str(value.name)].shape, strict=False)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None
    }


def _check_names(sizes: Sequence[Mapping[str, int]], known: Collection[str]) -> None:
    for name in (name for each in sizes for name in each if name not in known):
        has = f"they are {', '.join(known)}" if known else "there are none"
        raise UsageError(f"no symbolic axis is called {name!r};{did_you_mean(name, known)} {has}")


def _load(
    artifact: Artifact, names: Sequence[str] | None, threads: int, weight_bytes: int, exported: Exported | None
) -> tuple[dict[Competitor, list[Runner]], dict[str, str]]:
    """Load the baseline, the runtimes, and their default sessions.

    Returns:
        Competitor -> its sessions, and its label -> why it is unavailable. A runtime that was asked for by name is
        never unavailable: its error is raised.
    """
    loaded: dict[Competitor, list[Runner]] = {}
    unavailable: dict[str, str] = {}
    wanted = [r for r in RUNTIMES.values() if r.by_default] if names is None else get_runtimes(names)
    with tempfile.TemporaryDirectory(prefix="ffn-export-", ignore_cleanup_errors=True) as scratch:
        plain = Artifact(Path(scratch) / "exported.onnx")

        def load(who: Competitor) -> Runner:
            return get_runtime(who.runtime).load(plain if who.default else artifact, threads)

        def add(competitors: Iterable[Competitor]) -> None:
            for who in competitors:
                try:
                    loaded[who] = [load(who)]
                except FfnExportError as error:
                    if who.default or names is None or who.runtime not in names:
                        unavailable[who.label] = str(error)
                    elif isinstance(error, RuntimeUnavailableError):
                        reason = f"runtime {who.label!r} is not available here: {error}"
                        raise RuntimeUnavailableError(reason, who.runtime) from error
                    else:
                        raise

        add(Competitor(name) for name in dict.fromkeys([BASELINE, *(runtime.name for runtime in wanted)]))
        with_default = [replace(who, default=True) for who in loaded if get_runtime(who.runtime).has_ort_kernels]
        model = exported() if exported is not None and with_default else None
        if model is not None:
            plain = replace(plain, settings=default_session(model))
            onnx_file.save(model, Path(scratch) / "exported.onnx")
            add(with_default)
        # Loading a module again gives the same module, so it gets one session.
        files = [who for who in loaded if not get_runtime(who.runtime).runs_module]
        add_sessions(loaded, load, files, weight_bytes)
    return loaded, unavailable


def _ready(
    loaded: Mapping[Competitor, Sequence[Runner]], feeds: Mapping[str, Array]
) -> tuple[dict[Competitor, list[Call]], dict[Competitor, str]]:
    """Return the calls of the competitors that accept these inputs, and the errors of the others."""
    calls: dict[Competitor, list[Call]] = {}
    refusals: dict[Competitor, str] = {}
    for competitor, runners in loaded.items():
        try:
            runners[0].run(feeds)  # a run that does not end is ended here; a prepared call could not be
            prepared = prepare({competitor: runners}, feeds)
        except Exception as error:  # noqa: BLE001 - whatever a user's module or a runtime raises
            expose_own(error)
            refusals[competitor] = first_line(error)
            continue
        for who, each in prepared.items():
            reason = _refusal(each[0])
            if reason is None:
                calls[who] = each
            else:
                refusals[who] = reason
    return calls, refusals


def _is_accelerated(runner: Runner) -> bool:
    return any("cuda" in device.lower() or "tensorrt" in device.lower() for device in runner.placement())


def _refusal(call: Call) -> str | None:
    """Run once and return the first line of the error that it raises, or None."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever a user's module or a runtime raises
        expose_own(error)
        return first_line(error)
    return None
