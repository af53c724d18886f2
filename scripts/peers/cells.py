"""One cell: every competitor's output is compared with PyTorch's, and those that are right are timed in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from command_line import say
from ffn_export.core.one_line import first_line
from ffn_export.core.types import Array
from ffn_export.latency.ceilings import ceilings
from ffn_export.latency.competitors import Call, Competitor
from ffn_export.latency.host import STOLEN
from ffn_export.latency.interleaving import MAX_ROUNDS, MIN_WARM_UP, Pace, Runs, interleave
from ffn_export.latency.result import Ratio
from ffn_export.latency.statistics import paired_ratio, summarise
from ffn_export.latency.work import work
from ffn_export.parity.judging.metrics import relative_l2
from peers.competitors import COMPETITORS, Loaded
from peers.host import PatientHost
from peers.operators import openvino_profile, ort_profile, taken_apart
from peers.result import FLOAT32_PEERS, OTHER_PRECISIONS, OURS, TORCH, Cell
from peers.subject import Subject

# Runs as long as this are timed one by one: what the others drove from the caches is back in no time.
_LONG = 0.02
_ATTEMPTS = 3
_OPENVINO = "openvino"


@dataclass(frozen=True)
class Effort:
    """How long a competitor is timed in a cell.

    Attributes:
        budget: Seconds of timed runs, or of the pauses between them where these take longer.
        rounds: Rounds at the least.
        host: What is waited for before a cell, and watched during it.
    """

    budget: float
    rounds: int
    host: PatientHost = field(default_factory=PatientHost)

    def pace(self, seconds: float, *, several_sessions: bool) -> Pace:
        """Return how often competitors run whose runs take so many seconds; one session of each has just run once."""
        if seconds > _LONG:
            rounds = max(self.rounds, int(self.budget / seconds))
            warm_up = 1 if several_sessions else MIN_WARM_UP - 1
            return Pace(warm_up, rounds, rounds, block=1, untimed=0)
        return Pace(rounds=self.rounds, most_rounds=max(self.rounds, MAX_ROUNDS))


def measure(loaded: Loaded, tokens: int, effort: Effort) -> Cell:
    """Compare and time the competitors at a number of tokens."""
    subject, threads = loaded.subject, loaded.threads
    feeds = subject.feeds(tokens)
    found = _compare(loaded, feeds)
    calls = {name: [runner.prepare(feeds) for runner in loaded.runners[name]] for name in found.seconds}
    several = any(len(each) > 1 for each in calls.values())
    pace = effort.pace(median(found.seconds.values() or [0.0]), several_sessions=several)
    stolen, times = timed(calls, effort, pace) if calls else (None, {})
    ratios = tuple(_ratio(times, ours, other) for ours, other in _pairs(times))
    is_behind = any(r.runtime == OURS and r.baseline == _OPENVINO and r.value > 1 and not r.is_tie for r in ratios)
    return Cell(
        subject.name,
        subject.widths,
        tokens,
        threads,
        tuple(summarise(Competitor(name), each) for name, each in times.items()),
        ratios,
        found.errors,
        {**loaded.refused, **found.refused},
        _limit(subject, tokens, threads),
        _taken_apart(loaded, feeds) if is_behind else {},
        stolen,
    )


def timed(calls: Mapping[str, Sequence[Call]], effort: Effort, pace: Pace) -> tuple[float | None, Mapping[str, Runs]]:
    """Return times, and what the host took meanwhile: where that is much, of the best of a few attempts."""
    attempts: list[tuple[float | None, Mapping[str, Runs]]] = []
    for _ in range(_ATTEMPTS):
        effort.host.wait(say)
        since = effort.host.ticks()
        times = interleave(calls, effort.budget, pace)
        attempts.append((effort.host.stolen(since), times))
        if (attempts[-1][0] or 0.0) <= STOLEN or effort.host.patience <= 0:
            break
    return min(attempts, key=lambda each: each[0] or 0.0)


def _ratio(times: Mapping[str, Runs], one: str, other: str) -> Ratio:
    return paired_ratio(Competitor(one), times[one], Competitor(other), times[other])


@dataclass(frozen=True)
class _Compared:
    """What one run of each competitor showed.

    Attributes:
        errors: Relative L2 distance from PyTorch's, of the output that is furthest off.
        refused: Why one is not timed.
        seconds: How long the others took.
    """

    errors: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def _compare(loaded: Loaded, feeds: Mapping[str, Array]) -> _Compared:
    """Run each once. PyTorch is the first, and where it does not run nothing is known to be right."""
    found = _Compared()
    wanted: list[Array] | None = None
    for name in loaded.names:
        allowed = COMPETITORS[name].allowed
        try:
            call = loaded.runners[name][0]
            started = time.perf_counter()
            outputs = list(call.run(feeds).values())
            took = time.perf_counter() - started
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises on these sizes
            found.refused[name] = first_line(error)
            continue
        if name == TORCH:
            wanted = outputs
        if allowed is not None:
            if wanted is None:
                found.refused[name] = "there is no output of PyTorch's to compare with"
                continue
            distance = _distance(outputs, wanted)
            if not distance <= allowed:
                found.refused[name] = f"wrong: relative L2 error {distance:.1e}, allowed {allowed:g}"
                continue
            found.errors[name] = distance
        found.seconds[name] = took
    return found


def _distance(outputs: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the relative L2 distance of the output that is furthest off."""
    if [output.shape for output in outputs] != [output.shape for output in wanted]:
        return math.inf
    return max(relative_l2(output, right) for output, right in zip(outputs, wanted, strict=True))


def _pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return which ratios are of interest: ours over all, and further forms of ours over the float32 peers."""
    timed = list(names)
    forms = [name for name in timed if name.startswith(f"{OURS}-") and name not in OTHER_PRECISIONS]
    of_ours = [(OURS, name) for name in timed if OURS in timed and name != OURS]
    return of_ours + [(form, peer) for form in forms for peer in FLOAT32_PEERS if peer in timed]


def _limit(subject: Subject, tokens: int, threads: int) -> float | None:
    model = subject.model()
    to_do = work(model, subject.sizes(tokens))
    return None if to_do is None else ceilings(threads, subject.weight_bytes).seconds(to_do)


def _taken_apart(loaded: Loaded, feeds: Mapping[str, Array]) -> dict[str, dict[str, float]]:
    """Return where our time and OpenVINO's goes."""
    return taken_apart(
        {
            OURS: ort_profile(loaded.artifacts[OURS], loaded.threads, feeds),
            _OPENVINO: openvino_profile(loaded.artifacts[_OPENVINO], loaded.threads, feeds),
        }
    )


def ratio_text(ratio: Ratio) -> str:
    """Return a ratio with its interval, or that it is a tie."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}){', a tie' if ratio.is_tie else ''}"
