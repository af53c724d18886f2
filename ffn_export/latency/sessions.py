"""How many sessions of one file take turns.

Where the pages of its weights and buffers came to lie moves a session for as long as it lives: by up to 15 % at a few
tokens, by up to a fifth at thousands. The median over one session is that session's; so several are timed, and they are
what an interval is resampled over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ffn_export.core.strict import expose_own
from ffn_export.runtimes.base import Runner

SESSIONS = 4
_HELD = 2  # times its weights is what a session holds: as they are stored, and as the kernels want them
_MOST_BYTES = 4 * 2**30  # that all sessions hold. Not asked of the machine: what is free says nothing of a container


def session_count(weight_bytes: int, files: int) -> int:
    """Return how many sessions of each file are made: fewer of large ones, so that all of them stay within 4 GiB.

    Args:
        weight_bytes: Size of the weights of the largest.
        files: How many take part.
    """
    held = _HELD * weight_bytes * files
    return max(1, min(SESSIONS, _MOST_BYTES // max(held, 1)))


def add_sessions(
    loaded: dict[str, list[Runner]], load: Callable[[str], Runner], files: Collection[str], weight_bytes: int
) -> None:
    """Give competitors that have one session their others, in turn: those made one after the other lie side by side.

    Args:
        loaded: Competitor -> its session, which the others are put behind.
        load: Makes one more session of a competitor; where that fails, as for want of a device's memory, all have what
            they have.
        files: Competitors that run a file; the others get no more, since a module stays the same.
        weight_bytes: Size of the weights of the largest file.
    """
    for _ in range(1, session_count(weight_bytes, len(files))):
        for name in files:
            try:
                loaded[name].append(load(name))
            except Exception as error:  # noqa: BLE001 - whatever a runtime raises: one session of each is there
                expose_own(error)
                return
