"""Check that a graph is for inference only: no node trains or draws random numbers.

The outputs do not show either fault. ONNX Runtime removes a Dropout even in training mode, while other runtimes obey
the graph, and small noise stays below every bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.fusion_check.random_nodes import DRAWS
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.judging.check_result import CheckResult


def check(run: CheckedRun) -> CheckResult:
    """Find nodes that train or draw random numbers."""
    return CheckResult.of("inference only", "no node trains or draws", differences(run.model))


def differences(model: ir.Model) -> tuple[str, ...]:
    """Return one line for each node that trains or draws random numbers, including subgraphs and functions."""
    graphs: tuple[ir.Graph | ir.Function, ...] = (model.graph, *model.functions.values())
    return tuple(line for graph in graphs for node in graph.all_nodes() for line in _of(node))


def _of(node: ir.Node) -> Iterator[str]:
    if node.domain not in ("", "ai.onnx"):
        return
    where = f"node {node.name!r} ({node.op_type})" if node.name else f"a {node.op_type}"
    if node.op_type in DRAWS:
        yield f"{where} draws random numbers"
    if node.op_type == "Dropout" and len(node.inputs) > 2 and _is_true(node.inputs[2]):
        yield f"{where} is in training mode"
    if node.op_type == "BatchNormalization" and node.attributes.get_int("training_mode", 0) == 1:
        yield f"{where} is in training mode"


def _is_true(value: ir.Value | None) -> bool:
    constant = None if value is None else constant_tensor(value)
    return constant is not None and constant.size == 1 and bool(constant.numpy().item())
