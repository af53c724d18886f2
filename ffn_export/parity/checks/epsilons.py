"""Check that every epsilon of a graph is one that the module computes with.

A wrong epsilon far below the variance of every row changes no output: BERT uses 1e-12, and because of its biases 1e-11
shows on no input. The module's operators are therefore traced in one run (``module_trace``). An epsilon of the graph
must be among the numbers that they are given, up to rounding to its dtype. It is the attribute of a norm, or a small
number that guards a divisor, or what a root or a logarithm is taken of: it is added to that, or is its lower limit. One
that is subtracted is a negative epsilon. A root of a mean of squares with nothing added counts as an epsilon of 0. It
is wrong unless the module takes a root without an epsilon, too, or has none at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from ffn_export.core.drawing import float_info
from ffn_export.fusion import constants
from ffn_export.fusion.functions.contract import DOMAIN
from ffn_export.fusion.statistics import mean_square
from ffn_export.fusion.views import input_at, is_standard
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes
from ffn_export.parity.checks.node_arithmetic import note_dtypes
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.module_trace import Watched

# Operator -> default epsilon, by the schemas of ONNX and ONNX Runtime.
_NORMS: Mapping[str, float] = {
    "LayerNormalization": 1e-5,
    "RMSNormalization": 1e-5,
    "SimplifiedLayerNormalization": 1e-5,
    "BatchNormalization": 1e-5,
    "GroupNormalization": 1e-5,
    "InstanceNormalization": 1e-5,
    "SkipLayerNormalization": 1e-12,
    "SkipSimplifiedLayerNormalization": 1e-12,
}
# An epsilon attribute is a float32.
_ROUNDING = 2.0**-22
# A number that guards a divisor or a root counts as an epsilon only below this.
_LARGEST = 1e-2
# Operator -> inputs that may be the number that guards.
_GUARDS: Mapping[str, tuple[int, ...]] = {"Add": (0, 1), "Sub": (1,), "Max": (0, 1), "Clip": (1,)}
# Operator -> the input that it cannot take 0 of, or has no slope at 0.
_GUARDED: Mapping[str, int] = {"Div": 1, "Log": 0, "Pow": 0, "Reciprocal": 0, "ReduceL2": 0, "Sqrt": 0}
_LAYOUT = ("Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_DEEPEST = 4  # nodes between the two


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the epsilons of the graph with the numbers that the module computes with."""
    watched = run.module_trace
    if watched is None:
        return None
    return CheckResult.of("epsilons", "those of the module", differences(run.model, watched))


def differences(model: ir.Model, watched: Watched) -> tuple[str, ...]:
    """Return one line for each epsilon that the module does not use."""
    small = sorted(number for number in watched.terms if 0 < abs(number) < _LARGEST)
    return tuple(
        f"{where} has epsilon {epsilon:.6g}, which PyTorch computes with nowhere (it has {_listed(small)})"
        for where, epsilon, rounding, least in _epsilons(model)
        if not _is_of(watched, epsilon, rounding, least, bare=watched.takes_bare_roots or not small)
    )


def _is_of(watched: Watched, epsilon: float, rounding: float, least: float, *, bare: bool) -> bool:
    if not epsilon:
        return bare or any(0 < abs(number) <= least for number in watched.terms)
    return any(math.isclose(epsilon, number, rel_tol=rounding, abs_tol=least) for number in watched.terms)


def _epsilons(model: ir.Model) -> Iterator[tuple[str, float, float, float]]:
    """Yield each epsilon of a graph: the node, the number, its relative rounding error, and its least one."""
    dtypes: dict[ir.Value, ir.DataType] = {}
    for node in computed_nodes(model):
        note_dtypes(node, dtypes)
        name = f"node {node.name!r} ({node.op_type})"
        if node.op_type in _NORMS and node.domain in ("", "com.microsoft"):
            epsilon = node.attributes.get_float("epsilon", _NORMS[node.op_type])
            yield name, epsilon, _ROUNDING, 0.0 if epsilon else _least_rounding(dtypes.get(node.outputs[0]))
        if node.domain == DOMAIN and "epsilon" in node.attributes:
            yield name, node.attributes.get_float("epsilon"), _ROUNDING, 0.0
        if _is_bare_root(node):
            yield name, 0.0, 0.0, _least_rounding(dtypes.get(node.outputs[0]))
        if node.domain == "" and node.op_type in _GUARDS and _guards(node.outputs[0]):
            for value in (input_at(node, place) for place in _GUARDS[node.op_type]):
                number = constants.number(value)
                if value is not None and number is not None and 0 < abs(number) < _LARGEST:
                    epsilon = -number if node.op_type == "Sub" else number
                    yield name, epsilon, 2 * constants.relative_rounding(value), _least_rounding(dtypes.get(value))


def _is_bare_root(node: ir.Node) -> bool:
    """Whether a node is the root of a mean of squares that no epsilon is added to, or one over it."""
    value = input_at(node, 0)
    exponent = constants.number(input_at(node, 1)) if is_standard(node, "Pow") else None
    if value is None or not (is_standard(node, "Sqrt") or exponent in (0.5, -0.5)):
        return False
    found = mean_square(value, node.graph)
    return found is not None and not found.epsilon


def _guards(value: ir.Value, depth: int = _DEEPEST) -> bool:
    """Whether a value, in any layout and times any constant, is a divisor or under a root or a logarithm."""
    for user, place in value.uses():
        if user.domain == "" and _GUARDED.get(user.op_type) == place:
            return True
        if depth and _hands_on(user, place) and _guards(user.outputs[0], depth - 1):
            return True
    return False


def _hands_on(node: ir.Node, place: int) -> bool:
    """Whether a node gives an input on in another layout, or times or over a constant."""
    is_scaled = is_standard(node, "Mul", "Div") and constants.is_constant(input_at(node, 1 - place))
    return is_scaled or (place == 0 and is_standard(node, *_LAYOUT))


def _least_rounding(dtype: ir.DataType | None) -> float:
    """Return half the spacing of a dtype's numbers around 0: in float16 1e-7 is a number of two bits."""
    is_floating = dtype is not None and dtype.is_floating_point()
    return float(float_info(dtype.numpy()).smallest_subnormal) / 2 if dtype is not None and is_floating else 0.0


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers[:4]) or "none"
