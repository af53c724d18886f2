"""How many sessions of one file take turns.

Where the pages of its weights and buffers came to lie moves a session for as long as it lives: by up to 15 % at a few
tokens, by up to a fifth at thousands. The median over one session is that session's; so several are timed, and they are
what an interval is resampled over.
"""

from __future__ import annotations

SESSIONS = 4
_MOST_BYTES = 128 * 2**20  # of weights, which each session holds, and holds again as the kernels want them


def session_count(weight_bytes: int, runtime: str | None = None) -> int:
    """Return how many sessions are made of a model with so many bytes of weights.

    One of a large model, and one in a runtime of PyTorch's: the module itself runs there, however often it is loaded.
    """
    is_module = runtime is not None and runtime.startswith("torch")
    return 1 if is_module or weight_bytes > _MOST_BYTES else SESSIONS
