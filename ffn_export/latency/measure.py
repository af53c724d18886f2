"""Times PyTorch and runtimes in turn, in one process, with equal threads."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import onnx_ir as ir

from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.drawing import draw_all, fit_sizes
from ffn_export.exporter.one_line import first_line
from ffn_export.exporter.tensor_spec import TensorSpec, merge_dims
from ffn_export.latency.ceilings import ceilings
from ffn_export.latency.competitors import Call, prepare
from ffn_export.latency.result import FEW_TOKENS, LatencyResult, Measurement
from ffn_export.latency.statistics import ratios, summarise
from ffn_export.latency.work import work
from ffn_export.runtimes import environment
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.registry import RUNTIMES, get_runtime

BASELINE = "torch"
MIN_WARM_UP = 3
MIN_ROUNDS = 4
MAX_ROUNDS = 60
BLOCK = 3  # timed runs in a row, after one that is not timed
SETTLE = 0.01  # seconds, more than either thread pool spins
# Several of a competitor take turns at few tokens.
SESSIONS = 3
MOST_BYTES = 256 * 2**20  # of weights, which each session holds

Progress = Callable[[str], None]
Key = TypeVar("Key", bound=Hashable)


def measure(
    artifact: Artifact,
    specs: Sequence[TensorSpec],
    sizes: Sequence[Mapping[str, int]],
    *,
    runtimes: Sequence[str] | None = None,
    threads: int = 1,
    budget: float = 1.5,
    progress: Progress = lambda line: None,
) -> LatencyResult:
    """Time a model on runtimes, and its PyTorch source beside them where there is one.

    What runs on a device with memory of its own is timed twice: without copies, inputs and outputs being there, and
    with copies, from arrays on the host to arrays on the host. Both take part in the same rounds.

    Args:
        artifact: The model, its source and its session options.
        specs: Its inputs.
        sizes: Sizes of the symbolic dimensions, one entry a measurement; moved into the axes' bounds.
        runtimes: Names to time; None means every one that is timed by default and can run it here.
        threads: Intra-op threads of every competitor.
        budget: Seconds of timed runs for each competitor and set of sizes.
        progress: Called with a line for each set of sizes.

    Raises:
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    loaded, unavailable = _load(artifact, runtimes, threads)
    model = None if artifact.model_path is None else onnx_file.load(artifact.model_path)
    baseline = BASELINE if BASELINE in loaded else ""
    dims = list(merge_dims(specs).values())
    fitted = [fit_sizes(dims, {dim.name: wanted.get(dim.name, 1) for dim in dims}) for wanted in sizes]
    others = _OtherSessions(artifact, model, threads)
    measurements = []
    for one in [s for index, s in enumerate(fitted) if loaded and s not in fitted[:index]]:
        feeds = draw_all(specs, one, seed=0)
        label = ",".join(f"{name}={size}" for name, size in one.items()) or "static sizes"
        few = math.prod(one.values()) <= FEW_TOKENS
        runners = {name: [runner, *(others.of(name) if few else [])] for name, runner in loaded.items()}
        calls = prepare(runners, feeds)
        progress(f"timing {', '.join(competitor.label for competitor in calls)} at {label}")
        refusals = {who: reason for who, (call, *_) in calls.items() if (reason := _refusal(call)) is not None}
        unavailable |= {f"{who.label} at {label}": reason for who, reason in refusals.items()}
        if any(not who.copies for who in refusals):
            continue
        seconds = interleave({who: each for who, each in calls.items() if who not in refusals}, budget)
        measurements.append(
            Measurement(
                one,
                tuple(
                    summarise(who, times, accelerated=_is_accelerated(loaded[who.runtime]))
                    for who, times in seconds.items()
                ),
                ratios(seconds, baseline),
                None if model is None else work(model, one),
            )
        )
    return LatencyResult(
        artifact.model_path.name if artifact.model_path else BASELINE,
        baseline,
        tuple(measurements),
        unavailable,
        environment.current(threads),
        None if model is None or not measurements else ceilings(threads, onnx_file.weight_bytes(model)),
    )


def _load(artifact: Artifact, names: Sequence[str] | None, threads: int) -> tuple[dict[str, Runner], dict[str, str]]:
    """Load the baseline and what was asked for; only what was not asked for may be missing or refuse the model."""
    loaded: dict[str, Runner] = {}
    unavailable: dict[str, str] = {}
    wanted = [name for name, runtime in RUNTIMES.items() if runtime.by_default] if names is None else names
    for name in dict.fromkeys([BASELINE, *wanted]):
        try:
            loaded[name] = get_runtime(name).load(artifact, threads)
        except FfnExportError as error:
            if names is None or name not in names:
                unavailable[name] = str(error)
            elif isinstance(error, RuntimeUnavailableError):
                raise RuntimeUnavailableError(f"runtime {name!r} is not available here: {error}") from error
            else:
                raise
    return loaded, unavailable


class _OtherSessions:
    """More sessions of the competitors, made when they are first asked for; none of PyTorch, which has no session."""

    def __init__(self, artifact: Artifact, model: ir.Model | None, threads: int) -> None:
        self._artifact = artifact
        self._is_small = model is not None and onnx_file.weight_bytes(model) <= MOST_BYTES
        self._threads = threads
        self._runners: dict[str, list[Runner]] = {}

    def of(self, name: str) -> list[Runner]:
        """Return all but the first session of a competitor."""
        if name == BASELINE or not self._is_small:
            return []
        if name not in self._runners:
            runtime = get_runtime(name)
            self._runners[name] = [runtime.load(self._artifact, self._threads) for _ in range(SESSIONS - 1)]
        return self._runners[name]


def _is_accelerated(runner: Runner) -> bool:
    return any("cuda" in device.lower() or "tensorrt" in device.lower() for device in runner.placement())


def _refusal(call: Call) -> str | None:
    """Run once and return what a competitor raises on these sizes, or None."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever a user's module or a runtime raises
        return first_line(error)
    return None


@dataclass(frozen=True)
class Pace:
    """How often competitors run.

    Attributes:
        warm_up: Rounds at the least before anything is timed; 0 where all have run just before, and then the timed
            rounds are the fewest.
        rounds: Timed rounds at the least.
        most_rounds: Timed rounds at the most.
        block: Timed runs of a competitor in a row.
        untimed: Runs before these, in each round.
    """

    warm_up: int = MIN_WARM_UP
    rounds: int = MIN_ROUNDS
    most_rounds: int = MAX_ROUNDS
    block: int = BLOCK
    untimed: int = 1


def interleave(calls: Mapping[Key, Sequence[Call]], budget: float, pace: Pace | None = None) -> dict[Key, list[float]]:
    """Return seconds of each run, the competitors one after the other in every round.

    A call has to return when its results are there, also those of a device: it is timed by the wall clock.

    The order turns by one each round, so that nobody always runs after the same neighbour; the sessions of a
    competitor take turns, a round each. Warm-up goes on until two rounds in a row agree, or half the budget is spent.

    Args:
        calls: Name of a competitor -> its sessions, ready to be called.
        budget: Seconds of timed runs for each competitor.
        pace: How often they run; None means :class:`Pace` as it is.
    """
    pace = pace or Pace()
    with _no_garbage_collection():
        per_run = math.inf
        if pace.warm_up:
            per_run = _warm_up([call for each in calls.values() for call in each], budget / 2, pace.warm_up)
        rounds = min(pace.most_rounds, max(pace.rounds, int(budget / max(per_run * pace.block, 1e-9))))
        seconds: dict[Key, list[float]] = {name: [] for name in calls}
        names = list(calls)
        for turn in range(rounds):
            start = turn % len(names)
            for name in names[start:] + names[:start]:
                seconds[name].extend(_block(calls[name][turn % len(calls[name])], pace))
    return seconds


def _block(call: Call, pace: Pace) -> list[float]:
    """Time a few runs in a row, once the neighbour's threads have gone to sleep.

    The thread pools of torch and onnxruntime spin for a while after a run, waiting for the next one.
    Without the pause they take the processors from whoever runs then: on two cores that made each of
    two competitors up to twice as slow as it is alone.
    """
    time.sleep(SETTLE)
    for _ in range(pace.untimed):
        call()
    return [_timed(call) for _ in range(pace.block)]


def _warm_up(calls: Sequence[Call], budget: float, least: int) -> float:
    """Run rounds until they are steady; return the seconds of a run in the last round."""
    started = time.perf_counter()
    previous = float("inf")
    turn = 0
    while True:
        current = sum(map(_timed, calls))
        turn += 1
        steady = abs(current - previous) <= 0.1 * current
        if turn >= least and (steady or time.perf_counter() - started > budget):
            return current / len(calls)
        previous = current


def _timed(call: Call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of a run would be counted as that run's time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
