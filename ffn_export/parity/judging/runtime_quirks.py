"""Caveats: known arithmetic of a runtime or an operator. A case that a caveat explains is warned, not failed.

Measured for OpenVINO 2026.4 and tract 0.23 on an x86-64 CPU:

- Both add longer parts of a row in order than PyTorch does.
- Their ReLU returns 0 for NaN.
- tract flushes denormals to 0 in products.
- Errors on 20 seeds (``scripts/false_alarms.py``), denormals aside, are up to 1.33 times the bound with OpenVINO
  (``apx-ffn``) and up to 3.08 times with tract (``numpy-ffn``).

On any runtime, operators that round their input to 8-bit integers cannot represent NaN or infinity. A row that holds
infinity becomes NaN as a whole, also where PyTorch goes on with finite numbers, as behind a sigmoid. In ONNX Runtime,
recurrences, ReduceMax, ReduceMin, the pooling of largest values and a scatter that keeps the largest or smallest ignore
NaN, and ThresholdedRelu and Shrink make it 0. TopK, ArgMax, ArgMin and Sign treat NaN otherwise than PyTorch: the
standard does not order it. CumSum adds in order. The Fourier transform of NaN or infinity differs between algorithms,
which multiply it by other factors and leave out other zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from ffn_export.core.words import words

if TYPE_CHECKING:  # reports import this module and must not import onnx_ir
    import onnx_ir as ir

SUMS_IN_ORDER = "sums in order"
DROPS_NAN = "drops NaN"
FLUSHES_DENORMALS = "flushes denormals"
ORDERS_NAN = "orders NaN"
SORTS_NAN = "sorts NaN"
SPREADS_INFINITY = "spreads infinity"
TRANSFORMS_NAN = "transforms NaN"
EMPTY_TENSORS = "empty tensors"

_WITH_NAN = frozenset({"nan", "nan in parts", "infinite", "infinite in parts"})

# Caveat -> meaning, and caveat -> kinds of values that it explains errors on; None means all kinds.
MEANING: Mapping[str, str] = {
    SUMS_IN_ORDER: "adds the products of a row one after the other",
    DROPS_NAN: "gives a number for NaN",
    FLUSHES_DENORMALS: "takes denormal numbers for 0",
    ORDERS_NAN: "signs NaN otherwise than PyTorch",
    SORTS_NAN: "sorts NaN otherwise than PyTorch, which moves the numbers, too",
    SPREADS_INFINITY: "gives NaN for a row that holds infinity",
    TRANSFORMS_NAN: "has NaN and infinity at other places of a Fourier transform than PyTorch",
    EMPTY_TENSORS: "treats empty tensors otherwise than ONNX's reference evaluator, with which this graph is right",
}
_VALUES: Mapping[str, frozenset[str] | None] = {
    SUMS_IN_ORDER: None,
    DROPS_NAN: _WITH_NAN,
    FLUSHES_DENORMALS: frozenset({"denormal"}),
    ORDERS_NAN: _WITH_NAN,
    SORTS_NAN: _WITH_NAN,
    SPREADS_INFINITY: frozenset({"infinite", "infinite in parts"}),
    TRANSFORMS_NAN: _WITH_NAN,
    EMPTY_TENSORS: None,
}
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "openvino": (SUMS_IN_ORDER, DROPS_NAN),
    "tract": (SUMS_IN_ORDER, DROPS_NAN, FLUSHES_DENORMALS),
}


_TO_INTEGERS = frozenset({"::QuantizeLinear", "::DynamicQuantizeLinear", "com.microsoft::DynamicQuantizeMatMul"})
_PASSING_OVER = frozenset(
    f"::{name}" for name in words("GRU LSTM RNN ReduceMax ReduceMin MaxPool GlobalMaxPool ThresholdedRelu Shrink")
)
_SORTING = frozenset({"::ArgMax", "::ArgMin", "::TopK"})


def of_operators(nodes: Iterable[ir.Node]) -> tuple[str, ...]:
    """Return the caveats of a graph's operators on floating-point numbers: integers are exact, and never NaN."""
    nodes = tuple(node for node in nodes if not _takes_integers(node))
    names = {f"{node.domain}::{node.op_type}" for node in nodes}
    found = {
        DROPS_NAN: any(map(_rounds_to_integers, nodes)) or bool(names & _PASSING_OVER) or any(map(_selects, nodes)),
        SPREADS_INFINITY: any(map(_rounds_to_integers, nodes)),
        TRANSFORMS_NAN: "::DFT" in names,
        ORDERS_NAN: "::Sign" in names,
        SORTS_NAN: bool(names & _SORTING),
        SUMS_IN_ORDER: "::CumSum" in names,
    }
    return tuple(caveat for caveat, applies in found.items() if applies)


def _rounds_to_integers(node: ir.Node) -> bool:
    name = f"{node.domain}::{node.op_type}"
    at_level_4 = name == "com.microsoft::MatMulNBits" and node.attributes.get_int("accuracy_level", 0) == 4
    return at_level_4 or name in _TO_INTEGERS


def _takes_integers(node: ir.Node) -> bool:
    value = node.inputs[0] if node.inputs else None
    return value is not None and value.dtype is not None and not value.dtype.is_floating_point()


def _selects(node: ir.Node) -> bool:
    """Whether a scatter keeps the larger or the smaller of two numbers."""
    scatters = node.domain == "" and node.op_type in ("ScatterElements", "ScatterND")
    return scatters and node.attributes.get_string("reduction", "none") in ("max", "min")


def of_runtime(runtime: str) -> tuple[str, ...]:
    """Return the caveats of a runtime."""
    return _KNOWN.get(runtime, ())


def on_values(values: str, *known: Iterable[str]) -> tuple[str, ...]:
    """Return those of some caveats that may explain an error on a kind of values, each once."""
    found = dict.fromkeys(chain.from_iterable(known))
    return tuple(each for each in found if (kinds := _VALUES[each]) is None or values in kinds)
