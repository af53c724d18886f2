"""Keywords for loading a source. Light: the pytest plugin reads their names."""

from __future__ import annotations

from typing import TypedDict


class SourceOptions(TypedDict, total=False):
    """Keywords for loading a source, shared by every verb that has one.

    Attributes:
        seed: Seed of the weights of a SPEC; None means the preset's seed, otherwise 0.
        dtype: ``float32``, ``float16``, ``bfloat16`` or ``mixed``, which computes matrix products in float16.
            None means the dtype of the module's parameters.
        keep_io: Keep the graph's inputs and outputs in float32.
        task: Task that a model directory is loaded for, such as ``fill-mask``; None reads it from ``config.json``.
        trust: Import the source that a bundle names, or open a ``.pt2`` file. Both can run any code.
    """

    seed: int | None
    dtype: str | None
    keep_io: bool
    task: str | None
    trust: bool
