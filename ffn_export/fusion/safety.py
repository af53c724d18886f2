"""The safety gate: what must hold of every match, whatever the rule.

A rule's own ``match`` refuses what its operator does not compute. What is common to all is asked here, once,
before a match is rewritten: each refusal is a sentence for the report.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ffn_export.fusion import opset

# What onnxruntime's kernels for all fused operators take. In float64 it has no Gelu on CPU, and an
# RMSNormalization whose statistics are float32.
FUSABLE_DTYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def refusal(
    model: ir.Model, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], operator: str | None, ceiling: int
) -> str | None:
    """Return why the matched nodes must not be replaced, or None when they may be.

    Args:
        model: The model that they are in.
        nodes: The matched nodes.
        outputs: The values that the replacement will produce.
        operator: The operator that would be written, ``domain::Name`` for a vendor's; None where only
            operators stay that were there.
        ceiling: Highest opset that the graph can be raised to without changing a node.
    """
    lost = _escaping(nodes, outputs)
    if lost is not None or operator is None:
        return lost
    return _dtype(outputs, operator) or _opset(model, operator, ceiling, outputs[0].dtype)


def _escaping(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> str | None:
    """An intermediate that someone else reads would be lost."""
    for node in nodes:
        for value in node.outputs:
            if value in outputs:
                continue
            if value.is_graph_output():
                return f"intermediate {value.name!r} is a graph output"
            outside = next((user for user, _ in value.uses() if user not in nodes), None)
            if outside is not None:
                where = "inside a subgraph" if outside.graph is not node.graph else f"by {outside.op_type}"
                return f"intermediate {value.name!r} is also read {where}{_named(outside)}"
    return None


def _named(node: ir.Node) -> str:
    return f", at node {node.name!r}" if node.name else ""


def reads_what_goes(written: Sequence[ir.Node], nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> str | None:
    """Return why a replacement cannot stand alone: it reads an intermediate of the nodes that it replaces."""
    lost = {value for node in nodes for value in node.outputs} - set(outputs)
    read = next((value for node in written for value in node.inputs if value in lost), None)
    return None if read is None else f"intermediate {read.name!r} would still be read"


def calls_a_function(model: ir.Model, written: Sequence[ir.Node]) -> str | None:
    """Return why a replacement is another thing here: the model gives an operator that it writes a body of its own."""
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
