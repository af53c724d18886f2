"""Number of processors that this process may use, and checks of a requested thread count."""

from __future__ import annotations

import math
import os
from pathlib import Path

from ffn_export.errors import UsageError

_MOST_FOR_EACH = 16  # threads per processor; with more, a session takes minutes to start and ignores signals
_CGROUP = Path("/sys/fs/cgroup")


def chosen_threads(asked: int | None) -> int:
    """Return the requested thread count, or :func:`available_threads` if it is None.

    Raises:
        UsageError: If it is less than 1, or more than 16 per processor.
    """
    if asked is None:
        return available_threads()
    if not isinstance(asked, int):
        raise UsageError(f"{asked!r} is no number of threads: take 1 or more, or None for all of this process")
    if asked < 1:
        raise UsageError(f"{asked} threads cannot compute anything: take 1 or more, or None for all of this process")
    most = _MOST_FOR_EACH * (os.cpu_count() or 1)
    if asked > most:
        raise UsageError(f"{asked} threads are more than this machine can run: take {most} or fewer")
    return asked


def available_threads(cgroup: Path = _CGROUP) -> int:
    """Return the number of processors that this process may run on: its affinity, limited by its cgroup quota.

    ONNX Runtime's default of 0 counts all cores of the machine, also those that a container may not use.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota(cgroup)
    return max(1, affinity if quota is None else min(affinity, math.ceil(quota)))


def _cgroup_quota(cgroup: Path) -> float | None:
    """Return the quota in processors, from cgroup v2's ``cpu.max`` or v1's ``cfs`` files."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        microseconds = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text())
        return None if microseconds < 0 else microseconds / int((cgroup / "cpu" / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
