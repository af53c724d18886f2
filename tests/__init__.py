"""Tests, run by pytest from the root of the repository."""

from __future__ import annotations

import os

# Before NumPy is imported, here and in processes that tests start: the idle threads of its products spin, and took as
# much CPU time as all else that a verification does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
