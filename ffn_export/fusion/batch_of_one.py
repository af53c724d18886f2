"""Weights of shape ``[1, d, f]`` -> ``[d, f]``: a batch of one matrix that every product broadcasts.

Rules read a weight as a matrix. Only the shape changes, so a weight in a file is not read.
Not covered: a weight that anything but a ``MatMul`` reads, that a caller may override, or that gives its product
axes which the other operand lacks.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.fusion.views import is_standard, rank

_DTYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE})


def unwrap(model: ir.Model) -> None:
    """Remove the leading axes of size 1 from the weights of every graph of the model, in place."""
    for value, tensor in onnx_file.weights(model):
        if value.is_graph_input() or value.is_graph_output() or tensor.dtype not in _DTYPES:
            continue
        *leading, d_in, d_out = tensor.shape.numpy() if len(tensor.shape) > 2 else (0, 0)
        if leading and set(leading) == {1} and _is_broadcast_by_all(value, len(tensor.shape)):
            value.const_value = _shaped(tensor, ir.Shape((d_in, d_out)))
            value.shape = ir.Shape((d_in, d_out))


def _is_broadcast_by_all(weight: ir.Value, axes: int) -> bool:
    """Whether every reader is a ``MatMul`` whose first operand has at least as many axes."""
    return bool(weight.uses()) and all(
        is_standard(node, "MatMul") and place == 1 and (rank(node.inputs[0]) or 0) >= axes
        for node, place in weight.uses()
    )


def _shaped(tensor: ir.TensorProtocol, shape: ir.Shape) -> ir.TensorProtocol:
    """Return a tensor of the same bytes in another shape, without reading them."""
    if isinstance(tensor, ir.ExternalTensor):
        return ir.ExternalTensor(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=shape,
            name=str(tensor.name),
            base_dir=tensor.base_dir,
        )
    return ir.LazyTensor(
        lambda: ir.Tensor(tensor.numpy().reshape(shape.numpy()), dtype=tensor.dtype, name=tensor.name),
        dtype=tensor.dtype,
        shape=shape,
        name=tensor.name,
    )
