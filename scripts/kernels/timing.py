"""Times the graphs in turn.

Wall time of a whole session, and not the runtime's profiler: that counts whole microseconds, of which a sum of 64 rows
takes a few. What a node costs beside its kernel is in it, which a fused form saves. With one thread the clock is that
of the thread, where it is fine enough: it stands still while other processes have the processor.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ffn_export.errors import FfnExportError
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from kernels.graphs import Pair

MIN_ROUNDS = 3
_FINE = 1e-6  # seconds
_PRODUCTS_SHARE = 4  # of the time, beside others' 1: little is to be seen beside a product

Clock = Callable[[], float]
Progress = Callable[[str], None]


class Measured(Protocol):
    """What is timed: a kernel, or a whole feed-forward."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The numbers of rows that it is timed with."""

    @property
    def is_product(self) -> bool:
        """Whether products run too, beside which little is seen of it."""

    def pair(self, tokens: int, rng: np.random.Generator) -> Pair:
        """Return the graphs that show its time at a number of tokens."""


@dataclass(frozen=True)
class Cost:
    """What was measured of a kernel.

    Attributes:
        kernel: The kernel.
        by_tokens: Number of tokens -> nanoseconds for an element, one number a pass.
    """

    kernel: Measured
    by_tokens: Mapping[int, Sequence[float]]

    @property
    def medians(self) -> dict[int, float]:
        """Number of tokens -> nanoseconds for an element."""
        return {tokens: statistics.median(each) for tokens, each in self.by_tokens.items()}

    @property
    def ns_per_element(self) -> float:
        """The mean over the numbers of tokens."""
        return statistics.mean(self.medians.values())


def measure(
    kernels: Sequence[Measured],
    *,
    threads: int,
    passes: int,
    seconds: float,
    progress: Progress,
) -> tuple[list[Cost], dict[str, str]]:
    """Time kernels in several passes over all of them, with new sessions in each.

    So what slows the machine for a while falls on all, and where the pages of one session came to lie is in one pass.

    Args:
        kernels: What to time.
        threads: Intra-op threads.
        passes: How many.
        seconds: Of runs that are timed, for everything together; each kernel has a few runs in any case.
        progress: Called with a line for each pass.

    Returns:
        The costs, and name -> reason for what the runtime does not know, or has no kernel for.
    """
    lacking: dict[str, str] = {}
    found: dict[str, dict[int, list[float]]] = {each.name: {count: [] for count in each.tokens} for each in kernels}
    shares = {kernel.name: _PRODUCTS_SHARE if kernel.is_product else 1 for kernel in kernels}
    share = seconds / (passes * sum(len(kernel.tokens) * shares[kernel.name] for kernel in kernels))
    for turn in range(passes):
        progress(f"pass {turn + 1} of {passes}")
        for kernel in kernels:
            for count in kernel.tokens if kernel.name not in lacking else ():
                graphs = kernel.pair(count, np.random.default_rng(turn))
                try:
                    found[kernel.name][count].append(_nanoseconds(graphs, threads, share * shares[kernel.name]))
                except FfnExportError as error:
                    lacking[kernel.name] = str(error)
                    break
    return [Cost(kernel, found[kernel.name]) for kernel in kernels if kernel.name not in lacking], lacking


def _nanoseconds(graphs: Pair, threads: int, budget: float) -> float:
    """Return the median difference for an element, of two graphs that run in turn, each of them first as often."""
    clock = _clock(threads)
    less, more = (_call(model, graphs.feeds, threads) for model in (graphs.less, graphs.more))
    for call in (less, more, less, more):
        call()
    differences: list[float] = []
    ends = time.perf_counter() + budget
    while len(differences) < MIN_ROUNDS or time.perf_counter() < ends:
        if len(differences) % 2:
            long, short = _timed(more, clock), _timed(less, clock)
        else:
            short, long = _timed(less, clock), _timed(more, clock)
        differences.append(long - short)
    return 1e9 * statistics.median(differences) / graphs.elements


def _call(model: bytes, feeds: Mapping[str, Any], threads: int) -> Callable[[], Any]:
    return OrtRunner(make_session(model, NO_OPTIMIZER, threads)).prepare(feeds)


def _clock(threads: int) -> Clock:
    if threads == 1 and time.get_clock_info("thread_time").resolution < _FINE:
        return time.thread_time
    return time.perf_counter


def _timed(call: Callable[[], Any], clock: Clock) -> float:
    started = clock()
    call()
    return clock() - started
