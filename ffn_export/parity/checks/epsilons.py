"""Check that every norm of a graph has an epsilon that the module computes with.

A wrong epsilon far below the variance of every row changes no output: BERT uses 1e-12, and because of its biases 1e-11
shows on no input. The module's operators are therefore traced in one run (``module_trace``). An epsilon of the graph
must be among the numbers that they are given, up to rounding to its dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.functions.contract import DOMAIN
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes
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
# A number added before a square root counts as an epsilon only below this.
_LARGEST = 1e-2


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the epsilons of the graph with the numbers that the module computes with."""
    watched = run.module_trace
    if watched is None:
        return None
    return CheckResult.of("epsilons", "those of the module", differences(run.model, watched))


def differences(model: ir.Model, watched: Watched) -> tuple[str, ...]:
    """Return one line for each norm whose epsilon the module does not use."""
    small = sorted(number for number in watched.numbers if 0 < number < _LARGEST)
    return tuple(
        f"{where} has epsilon {epsilon:.6g}, which PyTorch computes with nowhere (it has {_listed(small)})"
        for where, epsilon, rounding in _epsilons(model)
        if not any(abs(epsilon - number) <= rounding * number for number in watched.numbers)
        and (epsilon or small)  # an epsilon of 0 is right if the module uses none
    )


def _epsilons(model: ir.Model) -> Iterator[tuple[str, float, float]]:
    """Yield each epsilon of a graph: the node, the number, and its relative rounding error."""
    for node in computed_nodes(model):
        name = f"node {node.name!r} ({node.op_type})"
        if node.op_type in _NORMS and node.domain in ("", "com.microsoft"):
            yield name, node.attributes.get_float("epsilon", _NORMS[node.op_type]), _ROUNDING
        if node.domain == DOMAIN and "epsilon" in node.attributes:
            yield name, node.attributes.get_float("epsilon"), _ROUNDING
        if node.op_type == "Add" and node.domain == "" and _is_rooted(node):
            for value in node.inputs:
                number = constants.number(value)
                if number is not None and 0 < number < _LARGEST:
                    yield name, number, 2 * constants.relative_rounding(value)


def _is_rooted(node: ir.Node) -> bool:
    users = [user for user, _ in node.outputs[0].uses()]
    return bool(users) and all(user.domain == "" and user.op_type in ("Sqrt", "Pow") for user in users)


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers[:4]) or "none"
