"""The floating-point dtypes that a graph computes in."""

from __future__ import annotations

import onnx_ir as ir

NO_FLOATS = "no floating-point numbers"


def graph_dtypes(model: ir.Model) -> frozenset[str]:
    """Return all floating-point dtypes in a graph: of inputs, outputs, weights, intermediate values and casts.

    A value without a stated dtype adds none: it has the dtype of its inputs, or of a Cast.
    """
    found: set[ir.DataType] = set()
    for graph in model.graphs():
        stated = [*graph.inputs, *graph.outputs, *graph.initializers.values()]
        found.update(value.dtype for value in stated if value.dtype is not None)
        for node in graph:
            found.update(value.dtype for value in node.outputs if value.dtype is not None)
            if node.op_type in ("Cast", "Constant", "ConstantOfShape"):
                found.update(map(ir.DataType, _made(node)))
    return frozenset(_NAMES[dtype] for dtype in found if dtype in _NAMES)


def described(dtypes: frozenset[str] | set[str]) -> str:
    """Return dtypes in one line, in a fixed order."""
    return ", ".join(sorted(dtypes)) or NO_FLOATS


_NAMES = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
}


def _made(node: ir.Node) -> list[int]:
    """Return the dtypes in a node's ``to`` and ``value`` attributes."""
    made = [node.attributes.get_int("to", 0)]
    tensor = node.attributes.get("value")
    if tensor is not None:
        made.append(tensor.as_tensor().dtype.value)
    return made
