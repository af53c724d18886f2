"""Python's garbage collector, asked to look less often while a graph is made.

Tracing, translating and cloning a graph make hundreds of thousands of objects that stay. By default CPython looks for
garbage each time 700 more of them are there: a tenth of the time of an export, for next to no memory.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

THRESHOLD = 20_000


@contextlib.contextmanager
def collected_seldom() -> Iterator[None]:
    """Let new objects be looked through each ``THRESHOLD`` of them, where the caller has not asked for less.

    Whether the collector runs at all stays the caller's choice, and what it was set to is set again.
    """
    before = gc.get_threshold()
    if before[0]:  # 0 turns it off
        gc.set_threshold(max(THRESHOLD, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
