"""Names of the extreme kinds of values. Plain strings, so that judging a stored result imports nothing that draws."""

from __future__ import annotations

from ffn_export.core.words import words

THRESHOLD = "threshold"
"""Kind of values on both sides of a number that the graph compares them with."""

TIES = "ties"
"""Kind of values that equal a number which the graph compares them with, or each other."""

EXTREME = words("small large outliers offset constant tiny denormal zeros nan infinite repeated eighths") | {
    "nan in parts",
    "infinite in parts",
    THRESHOLD,
    TIES,
}
"""Kinds of values that do not occur as activations: every drawn kind except normal values and masks."""
