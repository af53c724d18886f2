"""Tests, run by pytest from the root of the repository."""

from __future__ import annotations

import os

# Before NumPy is imported, here and in processes that tests start: the idle threads of its products spin, and took as
# much CPU time as all else that a verification does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Each worker of pytest-xdist keeps to one processor, before any library counts them to make threads: those would wait
# for the threads of the other workers.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
if _worker and hasattr(os, "sched_setaffinity"):
    _processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_processors[int(_worker) % len(_processors)]})
