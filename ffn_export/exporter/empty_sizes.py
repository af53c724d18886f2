"""Set ``allowzero`` on ``Reshape`` nodes: in torch's translation of attention, a size of 0 copies the input's size."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def keep(model: ir.Model) -> None:
    """Set ``allowzero`` if the target is concatenated from sizes, so that an empty sequence keeps size 0.

    A target with a constant 0 or -1 does not change: the 0 may mean to copy a size, and ONNX refuses a 0 beside a -1.
    """
    for node in model.graph.all_nodes():
        if node.op_type == "Reshape" and node.domain == "" and not node.attributes.get_int("allowzero", 0):
            target = node.inputs[1]
            if target is not None and _is_made_of_sizes(target):
                node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)


def _is_made_of_sizes(target: ir.Value) -> bool:
    concat = target.producer()
    if concat is None or concat.op_type != "Concat":
        return False
    written = [part.const_value.numpy() for part in concat.inputs if part is not None and part.const_value is not None]
    return len(written) < len(concat.inputs) and all(bool(np.all(numbers > 0)) for numbers in written)
