"""Time that others took from what is timed: our times hold it, and no clock shows it.

The host of a virtual machine gives processors to others (steal), other programs keep this one waiting for a processor,
and a container that has used up its share is paused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

STOLEN = 0.05  # of the processors' time, above which times say little
_NANOSECONDS, _MICROSECONDS = 1e-9, 1e-6


@dataclass(frozen=True)
class Ticks:
    """Of all processors since they were started.

    Attributes:
        wanted: What ran, or would have.
        stolen: What of that the host gave to others.
    """

    wanted: int
    stolen: int


@dataclass(frozen=True)
class Reading:
    """All counters at one time.

    Attributes:
        ticks: Of all processors.
        threads: Of each thread of this process, the seconds that it ran and those that it waited for a processor.
        paused: Seconds that the container was paused.
        at: When.
    """

    ticks: Ticks | None
    threads: Mapping[str, tuple[float, float]]
    paused: float | None
    at: float


@dataclass(frozen=True)
class Lost:
    """The cause that took most of the time between two readings.

    Attributes:
        share: Of the time that was wanted; 0 where nobody counts.
        cause: In words.
    """

    share: float = 0.0
    cause: str = ""


@dataclass
class Host:
    """The host, as Linux shows it; elsewhere nobody counts.

    Attributes:
        stat: Where Linux counts.
        tasks: A directory for each thread of this process.
        container: Where Linux counts how long a container was paused.
    """

    stat: Path = field(default=Path("/proc/stat"), kw_only=True)
    tasks: Path = field(default=Path("/proc/self/task"), kw_only=True)
    container: Path = field(default=Path("/sys/fs/cgroup/cpu.stat"), kw_only=True)

    def ticks(self) -> Ticks | None:
        """Read the counters; None where there are none."""
        try:
            name, *numbers = self.stat.read_text().splitlines()[0].split()
        except (OSError, ValueError, IndexError):
            return None
        if name != "cpu" or len(numbers) < 8:
            return None
        # proc_stat(5): user nice system idle iowait irq softirq steal; guests' time is within that of user and nice.
        user, nice, system, _, _, irq, softirq, steal = map(int, numbers[:8])
        return Ticks(user + nice + system + irq + softirq + steal, steal)

    def read(self) -> Reading:
        """Read all counters."""
        return Reading(self.ticks(), dict(self._threads()), self._paused(), time.perf_counter())

    def lost(self, since: Reading) -> Lost:
        """Return what took most of the time since a reading."""
        now = self.read()
        begun = {thread: since.threads.get(thread, (0.0, 0.0)) for thread in now.threads}
        ran, waited = (sum(now.threads[thread][i] - begun[thread][i] for thread in begun) for i in (0, 1))
        paused = None if now.paused is None or since.paused is None else now.paused - since.paused
        shares = {
            "the host of this virtual machine gave {} of the processors' time to others": self.stolen(since.ticks),
            "its threads waited {} of the time that they wanted to run, for processors that others used": (
                waited / (ran + waited) if ran + waited > 0 else None
            ),
            "its container was paused {} of the time": None if paused is None else paused / (now.at - since.at),
        }
        words, share = max(shares.items(), key=lambda each: each[1] or 0.0)
        return Lost(share, words.format(f"{share:.0%}")) if share else Lost()

    def _threads(self) -> Iterator[tuple[str, tuple[float, float]]]:
        """Yield what the scheduler counted of each thread: Linux' sched-stats.rst, ``/proc/<pid>/schedstat``."""
        for path in self.tasks.glob("*/schedstat"):
            try:
                ran, waited, *_ = map(int, path.read_text().split())
            except (OSError, ValueError):  # it ended meanwhile
                continue
            yield path.parent.name, (ran * _NANOSECONDS, waited * _NANOSECONDS)

    def _paused(self) -> float | None:
        """Return the seconds in which a control group's bandwidth was used up: Linux' cgroup-v2.rst, ``cpu.stat``."""
        try:
            counted = dict(line.split() for line in self.container.read_text().splitlines())
            return int(counted["throttled_usec"]) * _MICROSECONDS
        except (OSError, ValueError, KeyError):
            return None

    def stolen(self, since: Ticks | None) -> float | None:
        """Return the share of what was wanted since then that the host gave to others; None where nobody counts."""
        now = self.ticks()
        if now is None or since is None:
            return None
        return (now.stolen - since.stolen) / max(now.wanted - since.wanted, 1)
