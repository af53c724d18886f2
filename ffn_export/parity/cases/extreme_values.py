"""Names of the extreme kinds of values. Plain strings, so that judging a stored result imports nothing that draws."""

from __future__ import annotations

THRESHOLD = "threshold"
"""Kind of values on both sides of a number that the graph compares them with."""

EXTREME = frozenset(
    {
        "small", "large", "outliers", "offset", "constant", "tiny", "denormal", "zeros", "nan", "nan in parts",
        "infinite", "infinite in parts", THRESHOLD,
    }
)  # fmt: skip
"""Kinds of values that do not occur as activations: every drawn kind except normal values and masks."""
