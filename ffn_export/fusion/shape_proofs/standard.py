"""Infer output types, and sizes that are numbers, by ONNX's inference of a single node.

It gets the dtypes of the node's inputs, their sizes that are numbers, and small constants. It gets no symbols, and
nothing that the file states about other values.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from ffn_export.core.strict import expose_own
from ffn_export.fusion.shape_proofs.facts import Facts, Shape, View, contents_of_constant
from ffn_export.fusion.shape_proofs.size import Size
from ffn_export.fusion.views import is_one_of

# Operators of ONNX Runtime whose results have the dtype of the first input.
_TYPED_BY_FIRST = frozenset(
    (
        *("Attention", "BiasAdd", "BiasGelu", "BiasSoftmax", "BiasSplitGelu", "DynamicQuantizeMatMul", "FastGelu"),
        *("FusedConv", "FusedGemm", "FusedMatMul", "Gelu", "GroupQueryAttention", "MatMulNBits", "MultiHeadAttention"),
        *("QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization", "SkipLayerNormalization"),
        "SkipSimplifiedLayerNormalization",
    )
)


def inferred(view: View) -> tuple[list[ir.TypeProtocol | None], list[Shape | None]]:
    """Return the types and shapes of a node's outputs, None for each that is not known."""
    node, none = view.node, [None] * len(view.node.outputs)
    if is_one_of(node, *_TYPED_BY_FIRST) and (node.domain or not onnx.defs.has(node.op_type)):
        first = view.value(0)
        return [None if first is None else first.type] * len(node.outputs), list(none)
    if node.op_identifier() == ("com.microsoft", "MatMulIntegerToFloat", ""):
        scale = view.value(2)
        return [None if scale is None else scale.type], list(none)
    if node.domain:
        return list(none), list(none)
    found = _infer(view)
    types: list[ir.TypeProtocol | None] = []
    shapes: list[Shape | None] = []
    for output in node.outputs:
        proto = found.get(str(output.name))
        types.append(None if proto is None else ir.serde.deserialize_type_proto_for_type(proto))
        shapes.append(None if proto is None else _shape(proto, view.facts))
    return types, shapes


def _infer(view: View) -> Mapping[str, onnx.TypeProto]:
    node = view.node
    try:
        schema = onnx.defs.get_schema(node.op_type, view.opset, "")
        given = [value for value in dict.fromkeys(node.inputs) if value is not None]
        found: Mapping[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
            schema,
            ir.to_proto(node),
            {str(value.name): _type(value, view.facts) for value in given if value.type is not None},
            {str(value.name): constant for value in given if (constant := _constant(value)) is not None},
            opset_imports=[onnx.helper.make_opsetid("", view.opset)],
        )
    except Exception as error:  # noqa: BLE001 - if inference fails, the node keeps its own types
        expose_own(error)
        return {}
    return found


def _type(value: ir.Value, facts: Facts) -> onnx.TypeProto:
    proto = onnx.TypeProto()
    assert value.type is not None
    ir.serde.serialize_type_into(proto, value.type)
    shape = facts.shapes.get(value)
    if shape is not None and proto.HasField("tensor_type"):
        proto.tensor_type.shape.SetInParent()
        for size in shape:
            dim = proto.tensor_type.shape.dim.add()
            if size.constant is not None:
                dim.dim_value = size.constant
    return proto


def _constant(value: ir.Value) -> onnx.TensorProto | None:
    contents = contents_of_constant(value)
    if contents is None or value.const_value is None:
        return None
    return ir.to_proto(value.const_value)


def _shape(proto: onnx.TypeProto, facts: Facts) -> Shape | None:
    if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(
        Size.of(dim.dim_value) if dim.HasField("dim_value") else facts.unknown() for dim in proto.tensor_type.shape.dim
    )
