"""Constant tensors of values."""

from __future__ import annotations

import onnx_ir as ir


def constant_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer or of a ``Constant`` node, or None.

    The onnx-ir function for this renames the tensor of a ``Constant`` node after the value. If the graph is a copy that
    shares tensors with the caller's model, that would modify the caller's model. It also raises for a ``Constant`` that
    is not as the standard has it, such as one without a value, or with two.
    """
    node = value.producer()
    try:
        if node is not None and node.op_identifier() == ("", "Constant", "") and len(node.attributes) == 1:
            stated = node.attributes.get("value")
            if stated is not None and not stated.is_ref():
                return stated.as_tensor()
        return ir.convenience.get_const_tensor(value)
    except (TypeError, ValueError):
        return None
