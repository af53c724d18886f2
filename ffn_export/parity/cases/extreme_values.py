"""Names of the extreme kinds of values. Plain strings, so that judging a stored result imports nothing that draws."""

from __future__ import annotations

from ffn_export.core.words import words

THRESHOLD = "threshold"
"""Kind of values on both sides of a number that the graph compares them with."""

EXTREME = words("small large outliers offset constant tiny denormal zeros nan infinite repeated eighths") | {
    "nan in parts",
    "infinite in parts",
    THRESHOLD,
}
"""Kinds of values that do not occur as activations: every drawn kind except normal values and masks."""
