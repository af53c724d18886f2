"""Facts of any graph: values, operators, weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx_ir as ir

_STANDARD = ("", "ai.onnx")


def describe_value(value: ir.Value) -> dict[str, Any]:
    """Return name, dtype and symbolic shape of a graph input or output; an unnamed axis is ``?``."""
    dims = None if value.shape is None else [d if isinstance(d, int) else str(d.value or "?") for d in value.shape]
    return {"name": value.name, "dtype": dtype_name(value.dtype), "shape": dims}


def dtype_name(dtype: ir.DataType | None) -> str:
    """Return NumPy's name of an element type, or ``string`` or ``unknown``."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return "unknown"
    if dtype == ir.DataType.STRING:
        return "string"
    return dtype.numpy().name


def type_words(tensor: ir.TensorProtocol) -> str:
    """Return dtype and shape in one word, such as ``float32[768,3072]``."""
    return f"{dtype_name(tensor.dtype)}[{','.join(map(str, tensor.shape))}]"


def operator_name(node: ir.Node) -> str:
    """Return ``MatMul`` for a standard operator, else ``com.microsoft::QuickGelu`` with the domain."""
    return node.op_type if node.domain in _STANDARD else f"{node.domain}::{node.op_type}"


def operators(model: ir.Model) -> dict[str, int]:
    """Return operator -> number of nodes, most frequent first, with subgraphs and without constants."""
    counts = Counter(operator_name(node) for node in model.graph.all_nodes() if node.op_type != "Constant")
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def foreign_operators(model: ir.Model) -> tuple[str, ...]:
    """Return ``domain::Operator`` for each operator outside the standard domain."""
    return tuple(sorted({operator_name(n) for n in model.graph.all_nodes() if n.domain not in _STANDARD}))


def stored_bytes(tensor: ir.TensorProtocol) -> int:
    """Return the size of a tensor in bytes; a string tensor counts the bytes of its strings."""
    if tensor.dtype == ir.DataType.STRING:
        return sum(len(text) for text in tensor.numpy().reshape(-1))
    return tensor.nbytes
