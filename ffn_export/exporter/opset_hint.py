"""Find the operator of a graph that takes the dtype of its inputs from a later opset on, such as ``Conv`` bfloat16."""

from __future__ import annotations

import onnx
import onnx_ir as ir


def opset_hint(model: ir.Model) -> str:
    """Return what to do, for the first such operator; an empty string if there is none."""
    opset = model.opset_imports.get("", 0)
    for node in model.graph.all_nodes():
        if node.domain != "" or _takes_inputs(node, opset):
            continue
        for later in range(opset + 1, onnx.defs.onnx_opset_version() + 1):
            if _takes_inputs(node, later):
                dtypes = dict.fromkeys(_name(value.dtype) for value in node.inputs if value is not None and value.dtype)
                return f"; {node.op_type} takes {' and '.join(dtypes)} from opset {later} on: use --opset {later}"
    return ""


def _takes_inputs(node: ir.Node, opset: int) -> bool:
    """Whether each input has a dtype that is allowed, and inputs of one type parameter have the same."""
    try:
        formal = onnx.defs.get_schema(node.op_type, opset, "").inputs
    except onnx.defs.SchemaError:
        return False
    given = [(place, value) for place, value in enumerate(node.inputs) if value is not None and value.dtype is not None]
    places = [(formal[min(place, len(formal) - 1)], f"tensor({_name(value.dtype)})") for place, value in given]
    of_parameter = {place.type_str: dtype for place, dtype in places}
    return all(dtype in place.types and of_parameter[place.type_str] == dtype for place, dtype in places)


def _name(dtype: ir.DataType | None) -> str:
    assert dtype is not None
    return str(onnx.TensorProto.DataType.Name(dtype.value)).lower()
