"""Replace operators by plainer synonyms: ``Sum`` of two by ``Add``, ``CastLike`` to a known dtype by ``Cast``.

The function bodies of the standard use these operators, and so do programs that inline them. They are replaced before
rules read a graph, so that no rule has to know both names.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.views import inputs_of, is_standard

_SUM_BROADCASTS = 8


def rename(model: ir.Model) -> None:
    """Rename the operators in every graph of the model, in place; values keep their names."""
    broadcasts = model.opset_imports.get("", 0) >= _SUM_BROADCASTS
    for node in model.graph.all_nodes():
        inputs = inputs_of(node)
        if is_standard(node, "Sum") and broadcasts and len(inputs) == 2:
            node.op_type = "Add"
        elif is_standard(node, "CastLike") and len(inputs) == 2 and inputs[1].dtype is not None:
            node.op_type = "Cast"
            node.attributes["to"] = ir.AttrInt64("to", inputs[1].dtype.value)
            node.resize_inputs(1)
