"""The tensor that a value is known to hold."""

from __future__ import annotations

import onnx_ir as ir


def constant_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return an initialiser's tensor or that of a ``Constant`` node, or None.

    onnx-ir's function of this purpose names a node's tensor after the value: in the caller's model too, of which the
    graph at hand may be a copy that shares its tensors.
    """
    node = value.producer()
    if node is not None and node.op_identifier() == ("", "Constant", ""):
        stated = node.attributes.get("value")
        if stated is not None and stated.type == ir.AttributeType.TENSOR and not stated.is_ref():
            return stated.as_tensor()
    return ir.convenience.get_const_tensor(value)
