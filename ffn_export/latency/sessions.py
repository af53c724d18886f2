"""How many sessions of one file take turns.

Where the pages of its weights and buffers came to lie moves a session for as long as it lives: by up to 15 % at a few
tokens, by up to a fifth at thousands. The median over one session is that session's; so several are timed, and they are
what an interval is resampled over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from ffn_export.runtimes.base import Runner

SESSIONS = 4
_HELD = 2  # times its weights is what a session holds: as they are stored, and as the kernels want them
_MOST_BYTES = 4 * 2**30  # that the sessions of one file hold: a device's memory is not asked for
_UNKNOWN = 2**30  # bytes that are taken to be free where nobody tells


def session_count(weight_bytes: int, files: int, free: int | None = None) -> int:
    """Return how many sessions of each file are made: fewer of large ones, so that all fit into half of the memory.

    Args:
        weight_bytes: Size of the weights of the largest.
        files: How many take part.
        free: Bytes of memory that are free; None means those of this machine.
    """
    session = _HELD * max(weight_bytes, 1)
    room = (free_memory() if free is None else free) // 2 // max(files, 1)
    return max(1, min(SESSIONS, _MOST_BYTES // session, room // session))


def free_memory() -> int:
    """Return the bytes of memory that nobody uses, or 1 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def add_sessions(
    loaded: dict[str, list[Runner]], load: Callable[[str], Runner], files: Collection[str], weight_bytes: int
) -> None:
    """Give competitors that have one session their others, in turn: those made one after the other lie side by side.

    Args:
        loaded: Competitor -> its session, which the others are put behind.
        load: Makes one more session of a competitor.
        files: Competitors that run a file; the others get no more, since a module stays the same.
        weight_bytes: Size of the weights of the largest file.
    """
    for _ in range(1, session_count(weight_bytes, len(files))):
        for name in files:
            loaded[name].append(load(name))
