"""Read how much processor time this process lost to others while it was timed.

Lost time is part of every measured time, and no clock shows it. There are three causes: the host of a virtual machine
gives processors to others (steal), threads wait for a processor that other programs use, and a container is paused
when it has used up its quota.
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
    """Counters of all processors since boot, in clock ticks.

    Attributes:
        wanted: Ticks that were used or stolen.
        stolen: Ticks of these that the host gave to others.
    """

    wanted: int
    stolen: int


@dataclass(frozen=True)
class Reading:
    """All counters at one time.

    Attributes:
        ticks: Counters of all processors; None if the system has none.
        threads: Thread of this process -> seconds that it ran, and seconds that it waited for a processor.
        paused: Seconds that the container was paused; None if the system does not count them.
        at: Time of the reading, by ``time.perf_counter``.
    """

    ticks: Ticks | None
    threads: Mapping[str, tuple[float, float]]
    paused: float | None
    at: float


@dataclass(frozen=True)
class Lost:
    """The cause that took most of the time between two readings.

    Attributes:
        share: Lost share of the time that was wanted; 0 if the system does not count it.
        cause: The cause in words.
    """

    share: float = 0.0
    cause: str = ""


@dataclass
class Host:
    """The host's counters on Linux; other systems have none.

    Attributes:
        stat: File with the ticks of the processors.
        tasks: Directory with a subdirectory for each thread of this process.
        container: File with the time that the container was paused.
    """

    stat: Path = field(default=Path("/proc/stat"), kw_only=True)
    tasks: Path = field(default=Path("/proc/self/task"), kw_only=True)
    container: Path = field(default=Path("/sys/fs/cgroup/cpu.stat"), kw_only=True)

    def ticks(self) -> Ticks | None:
        """Read the ticks of the processors, or None if there are none."""
        try:
            name, *numbers = self.stat.read_text().splitlines()[0].split()
        except (OSError, ValueError, IndexError):
            return None
        if name != "cpu" or len(numbers) < 8:
            return None
        # proc_stat(5): user nice system idle iowait irq softirq steal; user and nice include the time of guests.
        user, nice, system, _, _, irq, softirq, steal = map(int, numbers[:8])
        return Ticks(user + nice + system + irq + softirq + steal, steal)

    def read(self) -> Reading:
        """Read all counters."""
        return Reading(self.ticks(), dict(self._threads()), self._paused(), time.perf_counter())

    def lost(self, since: Reading) -> Lost:
        """Return the cause that took most of the time since a reading."""
        now = self.read()
        begun = {thread: since.threads.get(thread, (0.0, 0.0)) for thread in now.threads}
        ran, waited = (sum(now.threads[thread][i] - begun[thread][i] for thread in begun) for i in (0, 1))
        paused = None if now.paused is None or since.paused is None else now.paused - since.paused
        shares = {
            "the host of this virtual machine gave {} of the processors' time to others": self.stolen(since.ticks),
            "its threads waited {} of the time for a processor": (
                waited / (ran + waited) if ran + waited > 0 else None
            ),
            "its container was paused {} of the time": None if paused is None else paused / (now.at - since.at),
        }
        words, share = max(shares.items(), key=lambda each: each[1] or 0.0)
        return Lost(share, words.format(f"{share:.0%}")) if share else Lost()

    def _threads(self) -> Iterator[tuple[str, tuple[float, float]]]:
        """Yield each thread with its seconds run and waited: Linux' sched-stats.rst, ``/proc/<pid>/schedstat``."""
        for path in self.tasks.glob("*/schedstat"):
            try:
                ran, waited, *_ = map(int, path.read_text().split())
            except (OSError, ValueError):  # the thread ended meanwhile
                continue
            yield path.parent.name, (ran * _NANOSECONDS, waited * _NANOSECONDS)

    def _paused(self) -> float | None:
        """Return the throttled seconds of the control group, from ``cpu.stat`` (Linux' cgroup-v2.rst)."""
        try:
            counted = dict(line.split() for line in self.container.read_text().splitlines())
            return int(counted["throttled_usec"]) * _MICROSECONDS
        except (OSError, ValueError, KeyError):
            return None

    def stolen(self, since: Ticks | None) -> float | None:
        """Return the share of the wanted ticks that the host gave to others since then, or None without counters."""
        now = self.ticks()
        if now is None or since is None:
            return None
        return (now.stolen - since.stolen) / max(now.wanted - since.wanted, 1)
