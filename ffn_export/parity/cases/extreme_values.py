"""Which kinds of values are extreme: plain names, which a result is judged by where nothing can be drawn."""

from __future__ import annotations

THRESHOLD = "threshold"
"""Values on both sides of a number that the graph compares them with."""

EXTREME = frozenset(
    {
        "small", "large", "outliers", "offset", "constant", "tiny", "denormal", "zeros", "nan", "nan in parts",
        "infinite", "infinite in parts", THRESHOLD,
    }
)  # fmt: skip
"""Values that no user's activations are: every drawn kind but normal ones and those of masks."""
