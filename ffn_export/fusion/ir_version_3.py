"""Handle files of IR version 3, in which every initializer must also be a graph input.

From version 4 on, an initializer that is an input is a default, and any other is a constant. Version 3 cannot tell them
apart. ONNX Runtime treats all of them as constants: it lists none as an input and refuses a fed one. Rules here do the
same. A fused model is saved with version 4; a file in which nothing was fused does not change.
"""

from __future__ import annotations

import onnx_ir as ir

_TELLS_THEM_APART = 4


def free_constants(model: ir.Model) -> None:
    """Remove the initializers of an old model from its inputs, in place."""
    if _is_old(model):
        model.graph.inputs[:] = [value for value in model.graph.inputs if not value.is_initializer()]


def raise_version(model: ir.Model) -> None:
    """Raise the IR version of an old model if it has an initializer that is no input, in place."""
    if _is_old(model) and any(not value.is_graph_input() for value in model.graph.initializers.values()):
        model.ir_version = _TELLS_THEM_APART


def _is_old(model: ir.Model) -> bool:
    return model.ir_version < _TELLS_THEM_APART
