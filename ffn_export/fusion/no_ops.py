"""Remove nodes that do nothing: ``Identity``, a cast to the input's dtype, ``Dropout`` outside of training.

They are removed before rules read a graph, so that no rule has to read through them. A node whose result is an output
of its graph stays: it gives the output its name.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.views import input_at, int_of, is_read, is_standard

# From this opset on, an input puts a Dropout into training mode; before opset 7, an attribute did.
_TRAINING_INPUT = 12
_INFERENCE_ONLY = 7


def remove(model: ir.Model) -> None:
    """Remove the no-ops of every graph of the model, in place."""
    opset = model.opset_imports.get("", 0)
    for graph in tuple(model.graphs()):
        for node in graph:
            source = input_at(node, 0)
            if source is None or not _does_nothing(node, source, opset) or node.outputs[0].is_graph_output():
                continue
            ir.convenience.replace_all_uses_with(node.outputs[0], source)
            graph.remove(node, safe=True)


def _does_nothing(node: ir.Node, source: ir.Value, opset: int) -> bool:
    if is_standard(node, "Identity"):
        return len(node.inputs) == len(node.outputs) == 1
    if is_standard(node, "Cast"):
        to = int_of(node, "to", 0)
        return len(node.inputs) == len(node.outputs) == 1 and source.dtype is not None and source.dtype.value == to
    if is_standard(node, "CastLike"):
        like = input_at(node, 1)
        return source.dtype is not None and like is not None and source.dtype == like.dtype
    if is_standard(node, "Dropout"):
        return not any(map(is_read, node.outputs[1:])) and not _may_train(node, opset)
    return False


def _may_train(dropout: ir.Node, opset: int) -> bool:
    if opset < _TRAINING_INPUT:
        return opset < _INFERENCE_ONLY and int_of(dropout, "is_test", 0) != 1
    mode = input_at(dropout, 2)
    array = constants.evaluate(mode)
    return mode is not None and (array is None or bool(array.any()))
