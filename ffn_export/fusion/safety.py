"""Safety: the conditions that every match must meet, whatever the rule.

A rule's ``match`` refuses functions that its operator does not compute. The conditions here are common to all rules and
are checked before a match is rewritten. Each refusal is a sentence for the report.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ffn_export.fusion import opset

# Dtypes for which onnxruntime has kernels of all fused operators. In float64 it has no Gelu on CPU, and its
# RMSNormalization computes the statistics in float32.
FUSABLE_DTYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def refusal(
    model: ir.Model, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], operator: str | None, ceiling: int
) -> str | None:
    """Return why the matched nodes must not be replaced, or None if they may be.

    Args:
        model: The model of the nodes.
        nodes: The matched nodes.
        outputs: Values that the replacement computes.
        operator: Operator to write, ``domain::Name`` for a vendor's; None if the operators of the graph are kept.
        ceiling: Highest opset that the graph can be raised to without changing a node.
    """
    lost = _escaping(nodes, outputs)
    if lost is not None or operator is None:
        return lost
    return _dtype(outputs, operator) or _opset(model, operator, ceiling, outputs[0].dtype)


def _escaping(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> str | None:
    """Return why an intermediate value would be lost: it is a graph output, or another node reads it."""
    for node in nodes:
        for value in node.outputs:
            if value in outputs:
                continue
            if value.is_graph_output():
                return f"intermediate {value.name!r} is a graph output"
            outside = next((user for user in value.consumers() if user not in nodes), None)
            if outside is not None:
                where = "inside a subgraph" if outside.graph is not node.graph else f"by {outside.op_type}"
                at = f", at node {outside.name!r}" if outside.name else ""
                return f"intermediate {value.name!r} is also read {where}{at}"
    return None


def reads_what_goes(written: Sequence[ir.Node], nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> str | None:
    """Return why a replacement is invalid: it reads an intermediate value of the nodes that it replaces."""
    lost = {value for node in nodes for value in node.outputs} - set(outputs)
    read = next((value for node in written for value in node.inputs if value in lost), None)
    return None if read is None else f"intermediate {read.name!r} would still be read"


def calls_a_function(model: ir.Model, written: Sequence[ir.Node]) -> str | None:
    """Return why a written operator has another meaning here: the model defines a function of the same name."""
    called = next((node for node in written if node.op_identifier() in model.functions), None)
    name = None if called is None else "::".join(part for part in (called.domain, called.op_type) if part)
    return None if name is None else f"the model has a function of its own that is named {name}"


def _dtype(outputs: Sequence[ir.Value], operator: str) -> str | None:
    for value in outputs:
        if value.dtype is None:
            return f"the dtype of {value.name!r} is not known"
        if value.dtype not in FUSABLE_DTYPES:
            dtype = value.dtype.name.lower()
            return f"{operator} is written for float, float16 and bfloat16, {value.name!r} is {dtype}"
    return None


def _opset(model: ir.Model, operator: str, ceiling: int, dtype: ir.DataType | None) -> str | None:
    domain, _, name = operator.rpartition("::")
    if (domain, name, "") in model.functions:
        return f"the model has a function of its own that is named {operator}"
    since, current = opset.introduced(operator, dtype), model.opset_imports.get("", 0)
    if since > ceiling:
        return f"{operator} needs opset {since}; raising this graph above {ceiling} would change one of its operators"
    if opset.runnable_up_to(operator) < current <= opset.HIGHEST_OPSET:
        return f"onnxruntime runs no {operator} in a graph of opset {current}"
    return None
