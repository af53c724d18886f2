"""How many sessions of one file take turns.

Where the pages of its weights and buffers came to lie moves a session for as long as it lives: by up to 15 % at a few
tokens, by up to a fifth at thousands. The median over one session is that session's; so several are timed, and they are
what an interval is resampled over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ffn_export.runtimes.base import Runner

SESSIONS = 4
_MOST_BYTES = 128 * 2**20  # of weights, which each session holds, and holds again as the kernels want them


def session_count(weight_bytes: int) -> int:
    """Return how many sessions are made of a model with so many bytes of weights: one of a large model."""
    return SESSIONS if weight_bytes <= _MOST_BYTES else 1


def add_sessions(
    loaded: Mapping[str, list[Runner]], load: Callable[[str], Runner], weight_bytes: Mapping[str, int]
) -> None:
    """Give competitors that have one session their others, in turn: those made one after the other lie side by side.

    Args:
        loaded: Competitor -> its session, which the others are put behind.
        load: Makes one more session of a competitor.
        weight_bytes: Competitor -> size of its weights; those that are not named get no more.
    """
    for turn in range(1, SESSIONS):
        for name, sessions in loaded.items():
            if name in weight_bytes and turn < session_count(weight_bytes[name]):
                sessions.append(load(name))
