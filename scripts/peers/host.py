"""What the host of a virtual machine gives to others of its processors: our times hold it, and no clock shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STOLEN = 0.05  # of the processors' time, above which times say little
_LOOK, _PAUSE = 0.3, 5.0  # seconds of work to look by, and between two looks


@dataclass(frozen=True)
class Ticks:
    """Of all processors since they were started.

    Attributes:
        wanted: What ran, or would have.
        stolen: What of that the host gave to others.
    """

    wanted: int
    stolen: int


@dataclass
class Host:
    """The host, as Linux shows it; elsewhere, and on a machine of one's own, it takes nothing.

    Attributes:
        patience: Seconds that may still be waited for it, in all.
        stat: Where Linux counts.
    """

    patience: float = 0.0
    stat: Path = field(default=Path("/proc/stat"))

    def ticks(self) -> Ticks:
        """Read the counters."""
        try:
            name, *numbers = self.stat.read_text().splitlines()[0].split()
        except (OSError, ValueError, IndexError):
            return Ticks(0, 0)
        if name != "cpu" or len(numbers) < 8:
            return Ticks(0, 0)
        # proc_stat(5): user nice system idle iowait irq softirq steal; guests' time is within that of user and nice.
        user, nice, system, _, _, irq, softirq, steal = map(int, numbers[:8])
        return Ticks(user + nice + system + irq + softirq + steal, steal)

    def stolen(self, since: Ticks) -> float:
        """Return the share of what was wanted since then that the host gave to others."""
        now = self.ticks()
        return (now.stolen - since.stolen) / max(now.wanted - since.wanted, 1)

    def wait(self, progress: Callable[[str], None] = lambda line: None) -> None:
        """Wait while the host is busy with others, as long as patience lasts."""
        told = False
        while self.patience > 0:
            began, since = time.monotonic(), self.ticks()
            while time.monotonic() - began < _LOOK:
                pass
            if self.stolen(since) <= STOLEN:
                return
            if not told:
                progress(f"the host is busy with others: waiting, {self.patience:.0f} s at the most")
                told = True
            time.sleep(min(_PAUSE, self.patience))
            self.patience -= time.monotonic() - began
