"""Load several sessions of one file, which are timed in turn.

Page placement of weights and buffers changes the time of a session for as long as it lives: by up to 15 % at a few
tokens, by up to a fifth at thousands. A median over one session includes that. So several sessions are timed, and the
confidence interval resamples sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import TypeVar

from ffn_export.core.strict import expose_own
from ffn_export.runtimes.base import Runner

Key = TypeVar("Key", bound=Hashable)

SESSIONS = 4
_HELD = 2  # copies of the weights in a session: as stored, and as packed for the kernels
_MOST_BYTES = 4 * 2**30  # of all sessions. Constant, because free memory of the machine says nothing about a container


def session_count(weight_bytes: int, files: int) -> int:
    """Return the number of sessions of each file: fewer for large files, so that all stay within 4 GiB.

    ``weight_bytes`` is the size of the weights of the largest file.
    """
    held = _HELD * weight_bytes * files
    return max(1, min(SESSIONS, _MOST_BYTES // max(held, 1)))


def add_sessions(
    loaded: dict[Key, list[Runner]], load: Callable[[Key], Runner], files: Collection[Key], weight_bytes: int
) -> None:
    """Add sessions to competitors that have one.

    Competitors take turns, because sessions made in a row lie side by side in memory.

    Args:
        loaded: Competitor -> its first session; the others are appended.
        load: Makes one more session of a competitor. Its first failure, such as a lack of device memory, ends the
            adding.
        files: Competitors that run a file. The others keep one session, since a module stays the same.
        weight_bytes: Size of the weights of the largest file.
    """
    for _ in range(1, session_count(weight_bytes, len(files))):
        for name in files:
            try:
                loaded[name].append(load(name))
            except Exception as error:  # noqa: BLE001 - whatever a runtime raises: each has one session, which is enough
                expose_own(error)
                return
