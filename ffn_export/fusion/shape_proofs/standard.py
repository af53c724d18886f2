"""Infer output types, and sizes that are numbers, by ONNX's inference of a single node.

It gets the dtypes of the node's inputs, their sizes that are numbers, and small constants. It gets no symbols, and
nothing that the file states about other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
_KINDS = ir.AttributeType
_PLAIN = {_KINDS.INT, _KINDS.INTS, _KINDS.FLOAT, _KINDS.FLOATS, _KINDS.STRING, _KINDS.STRINGS}


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
    found = _inferred(view)
    types: list[ir.TypeProtocol | None] = []
    shapes: list[Shape | None] = []
    for proto in found:
        types.append(None if proto is None else ir.serde.deserialize_type_proto_for_type(proto))
        shapes.append(None if proto is None else _shape(proto, view.facts))
    return types, shapes


def _inferred(view: View) -> Sequence[onnx.TypeProto | None]:
    node = view.node
    attributes = tuple((each.name, each.type, _frozen(each.value)) for each in node.attributes.values())
    given = tuple(None if value is None else _given(value, view.facts) for value in node.inputs)
    # The cache would keep tensors and graphs alive.
    outputs = _outputs if {kind for _, kind, _ in attributes} <= _PLAIN else _outputs.__wrapped__
    try:
        return outputs(node.op_type, view.opset, attributes, given, len(node.outputs))
    except Exception as error:  # noqa: BLE001 - if inference fails, the node keeps its own types
        expose_own(error)
        return [None] * len(node.outputs)


def _frozen(attribute: object) -> object:
    return tuple(attribute) if isinstance(attribute, list) else attribute


@dataclass(frozen=True)
class _Given:
    """What is known of an input: its type, its sizes that are numbers, and its elements if they are few integers."""

    type: ir.TypeProtocol | None
    shape: tuple[int | None, ...] | None
    elements: tuple[int, ...] | None

    def to_type(self) -> onnx.TypeProto:
        """Return the type for ONNX."""
        assert self.type is not None
        proto = onnx.TypeProto()
        ir.serde.serialize_type_into(proto, self.type)
        if self.shape is not None and proto.HasField("tensor_type"):
            proto.tensor_type.shape.SetInParent()
            for size in self.shape:
                dim = proto.tensor_type.shape.dim.add()
                if size is not None:
                    dim.dim_value = size
        return proto

    def to_tensor(self, name: str) -> onnx.TensorProto:
        """Return the elements as a tensor."""
        assert self.type is not None
        assert self.elements is not None
        dims = [size for size in self.shape or () if size is not None]
        return onnx.helper.make_tensor(name, self.type.dtype.value, dims, self.elements)


def _given(value: ir.Value, facts: Facts) -> _Given:
    shape, contents = facts.shapes.get(value), contents_of_constant(value)
    sizes = None if shape is None else tuple(size.constant for size in shape)
    numbers = [None if size is None else size.constant for size in contents or ()]
    elements = tuple(number for number in numbers if number is not None)
    is_known = contents is not None and sizes is not None and len(elements) == len(numbers)
    return _Given(value.type, sizes, elements if is_known else None)


@lru_cache(maxsize=1024)  # layers repeat, and the conversions take longer than all else that is proven of a node
def _outputs(
    op_type: str,
    opset: int,
    attributes: tuple[tuple[str, ir.AttributeType, object], ...],
    given: tuple[_Given | None, ...],
    count: int,
) -> Sequence[onnx.TypeProto | None]:
    named = {f"x{place}": each for place, each in enumerate(given) if each is not None}
    node = onnx.NodeProto(
        op_type=op_type,
        input=["" if each is None else f"x{place}" for place, each in enumerate(given)],
        output=[f"y{place}" for place in range(count)],
        attribute=[ir.to_proto(ir.Attr(name, kind, value)) for name, kind, value in attributes],
    )
    found = onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(op_type, opset, ""),
        node,
        {name: each.to_type() for name, each in named.items() if each.type is not None},
        {name: each.to_tensor(name) for name, each in named.items() if each.elements is not None},
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )
    return [found.get(name) for name in node.output]


def _shape(proto: onnx.TypeProto, facts: Facts) -> Shape | None:
    if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(
        Size.of(dim.dim_value) if dim.HasField("dim_value") else facts.unknown() for dim in proto.tensor_type.shape.dim
    )
