"""Files of IR version 3, in which every initialiser has to be an input of the graph too.

Version 4 tells a default, which is an input, from a constant, which is none. Before it a file could not say which was
meant, and ONNX Runtime takes all of them for constants: it lists none as an input and refuses one that is fed. So do
rules here. What is fused is a file of version 4; a file in which nothing was fused stays as it came.
"""

from __future__ import annotations

import onnx_ir as ir

_TELLS_THEM_APART = 4


def free_constants(model: ir.Model) -> None:
    """Take the initialisers of an old model out of its inputs, in place."""
    if _is_old(model):
        model.graph.inputs[:] = [value for value in model.graph.inputs if not value.is_initializer()]


def raise_version(model: ir.Model) -> None:
    """Raise the version of an old model that has an initialiser which is no input, in place."""
    if _is_old(model) and any(not value.is_graph_input() for value in model.graph.initializers.values()):
        model.ir_version = _TELLS_THEM_APART


def _is_old(model: ir.Model) -> bool:
    return model.ir_version < _TELLS_THEM_APART
