"""What the host of a virtual machine gives to others of its processors: our times hold it, and no clock shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

STOLEN = 0.05  # of the processors' time, above which times say little


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
    """The host, as Linux shows it; elsewhere nobody counts.

    Attributes:
        stat: Where Linux counts.
    """

    stat: Path = field(default=Path("/proc/stat"), kw_only=True)

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

    def stolen(self, since: Ticks | None) -> float | None:
        """Return the share of what was wanted since then that the host gave to others; None where nobody counts."""
        now = self.ticks()
        if now is None or since is None:
            return None
        return (now.stolen - since.stolen) / max(now.wanted - since.wanted, 1)
