"""Give each ``Clip`` of floating-point numbers both bounds.

With one bound, ONNX Runtime turns infinity into the largest number. ``decompositions`` writes both for a ``clamp`` of
the module; the parts that torch's exporter makes of another operator, such as ``cosine_similarity``, have one.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir


def bound(model: ir.Model) -> None:
    """Add infinity as the bound that a ``Clip`` leaves out."""
    for node in model.graph.all_nodes():
        x = node.inputs[0] if (node.domain, node.op_type) == ("", "Clip") and node.inputs else None
        if x is None or x.dtype is None or not isinstance(node.graph, ir.Graph):
            continue
        if not x.dtype.is_floating_point():
            continue
        node.resize_inputs(3)
        for place, infinity in ((1, -math.inf), (2, math.inf)):
            if node.inputs[place] is None:
                name = f"{node.outputs[0].name}_{'lowest' if place == 1 else 'highest'}"
                tensor = ir.tensor(np.array(infinity, x.dtype.numpy()), name=name)
                value = ir.Value(name=name, const_value=tensor, shape=ir.Shape([]), type=ir.TensorType(x.dtype))
                node.graph.register_initializer(value)
                node.replace_input_with(place, value)
