"""Sizes of 0 in the target of a ``Reshape``: torch's translation of attention lets them mean "as before"."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def keep(model: ir.Model) -> None:
    """Say ``allowzero`` where the target is put together of sizes, so that an empty sequence is a size of 0.

    A target with a 0 or a -1 that is written down stays: the one may be meant to copy, and next to the other a 0 is
    refused.
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
