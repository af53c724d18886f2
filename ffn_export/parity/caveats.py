"""What is known of a runtime's arithmetic that no model is to blame for: a case that it explains is warned, not failed.

OpenVINO 2026.4 and tract 0.23, on an x86-64 CPU: both add up more of a row in order than PyTorch does; their ReLU gives
0 for NaN; tract takes denormals for 0 in products. ``scripts/false_alarms.py``, two seeds: up to 1.21 times what is
allowed with OpenVINO (``numpy-ffn``), up to 1.64 with tract (``bert-ffn``), besides denormals.
"""

from __future__ import annotations

from collections.abc import Mapping

SUMS_IN_ORDER = "sums in order"
DROPS_NAN = "drops NaN"
FLUSHES_DENORMALS = "flushes denormals"

# Caveat -> what it means, and the kinds of values on which it explains anything; None for all of them.
MEANING: Mapping[str, str] = {
    SUMS_IN_ORDER: "adds the products of a row one after the other",
    DROPS_NAN: "gives a number for NaN",
    FLUSHES_DENORMALS: "takes denormal numbers for 0",
}
_VALUES: Mapping[str, frozenset[str] | None] = {
    SUMS_IN_ORDER: None,
    DROPS_NAN: frozenset({"nan", "infinite"}),
    FLUSHES_DENORMALS: frozenset({"denormal"}),
}
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "openvino": (SUMS_IN_ORDER, DROPS_NAN),
    "tract": (SUMS_IN_ORDER, DROPS_NAN, FLUSHES_DENORMALS),
}


def caveats(runtime: str, values: str) -> tuple[str, ...]:
    """Return what may explain an error of a runtime on a kind of values."""
    known = _KNOWN.get(runtime, ())
    return tuple(each for each in known if (kinds := _VALUES[each]) is None or values in kinds)
