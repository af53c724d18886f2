"""What is known of a runtime's arithmetic, or an operator's: a case that it explains is warned, not failed.

OpenVINO 2026.4 and tract 0.23, on an x86-64 CPU: both add up more of a row in order than PyTorch does; their ReLU gives
0 for NaN; tract takes denormals for 0 in products. ``scripts/false_alarms.py``, 20 seeds: up to 1.33 times what is
allowed with OpenVINO (``apx-ffn``), up to 3.08 with tract (``numpy-ffn``), besides denormals.

Operators that round their input to 8-bit integers have none for NaN, on any runtime. ONNX Runtime's recurrences and
its largest and smallest of a row pass NaN over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # reports load what this says, and load no graphs
    import onnx_ir as ir

SUMS_IN_ORDER = "sums in order"
DROPS_NAN = "drops NaN"
FLUSHES_DENORMALS = "flushes denormals"
EMPTY_TENSORS = "empty tensors"

# Caveat -> what it means, and the kinds of values on which it explains anything; None for all of them.
MEANING: Mapping[str, str] = {
    SUMS_IN_ORDER: "adds the products of a row one after the other",
    DROPS_NAN: "gives a number for NaN",
    FLUSHES_DENORMALS: "takes denormal numbers for 0",
    EMPTY_TENSORS: "treats empty tensors otherwise than ONNX's reference evaluator, with which this graph is right",
}
_VALUES: Mapping[str, frozenset[str] | None] = {
    SUMS_IN_ORDER: None,
    DROPS_NAN: frozenset({"nan", "nan in parts", "infinite", "infinite in parts"}),
    FLUSHES_DENORMALS: frozenset({"denormal"}),
    EMPTY_TENSORS: None,
}
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "openvino": (SUMS_IN_ORDER, DROPS_NAN),
    "tract": (SUMS_IN_ORDER, DROPS_NAN, FLUSHES_DENORMALS),
}


_TO_INTEGERS = frozenset({"::QuantizeLinear", "::DynamicQuantizeLinear", "com.microsoft::DynamicQuantizeMatMul"})
_PASSING_OVER = frozenset({"::GRU", "::LSTM", "::RNN", "::ReduceMax", "::ReduceMin"})


def of_operators(nodes: Iterable[ir.Node]) -> tuple[str, ...]:
    """Return what is known of operators that a graph holds."""
    return (DROPS_NAN,) if any(map(_drops_nan, nodes)) else ()


def _drops_nan(node: ir.Node) -> bool:
    name = f"{node.domain}::{node.op_type}"
    at_level_4 = name == "com.microsoft::MatMulNBits" and node.attributes.get_int("accuracy_level", 0) == 4
    return at_level_4 or name in _TO_INTEGERS or name in _PASSING_OVER


def caveats(runtime: str, values: str, operators: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what may explain an error of a runtime on a kind of values.

    Args:
        runtime: Its name.
        values: The kind.
        operators: What is known of the graph's operators.
    """
    known = dict.fromkeys((*_KNOWN.get(runtime, ()), *operators))
    return tuple(each for each in known if (kinds := _VALUES[each]) is None or values in kinds)
