"""Build the nodes of a function body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.core.words import words
from ffn_export.fusion.builder import Builder

Values = Sequence[ir.Value | None]


class BodyBuilder(Builder):
    """Writes the nodes of a function body. Constants are nodes, because a body has no initializers.

    Values get dtypes, which ONNX's reference evaluator needs.
    """

    def several(
        self, operator: str, outputs: int, /, *inputs: ir.Value | None, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Write a node of this number of outputs, and return them."""
        values = super().several(operator, outputs, *inputs, **attributes)
        _set_dtypes(self.nodes[-1])
        return values

    def constant(self, array: Array | np.generic, dtype: ir.DataType | None = None) -> ir.Value:
        """Write a constant as a node."""
        tensor = ir.tensor(array, dtype=dtype)
        return self.Constant(value=ir.AttrTensor("value", ir.Tensor(tensor.numpy(), dtype=tensor.dtype)))


_OF_ONE_DTYPE = words(
    "Add Sub Mul Div MatMul Gemm Reshape Relu Gelu Sigmoid Tanh Erf Elu LeakyRelu ReduceMean Sqrt Reciprocal Split "
    "Swish Identity Slice Concat"
)


def _set_dtypes(node: ir.Node) -> None:
    """Set unknown dtypes of a node's outputs that follow from its inputs or attributes."""
    dtype: ir.DataType | None = None
    if node.op_type == "Cast":
        dtype = ir.DataType(node.attributes["to"].as_int())
    elif node.op_type == "Constant":
        tensor = node.attributes.get("value")
        dtype = ir.DataType.FLOAT if tensor is None else tensor.as_tensor().dtype
    elif node.op_type == "Shape":
        dtype = ir.DataType.INT64
    elif node.op_type in _OF_ONE_DTYPE:
        dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    for value in node.outputs:
        if value.type is None and dtype is not None:
            value.type = ir.TensorType(dtype)
