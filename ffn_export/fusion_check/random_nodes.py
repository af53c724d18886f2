"""Find nodes that draw random numbers, with which two runs of a graph differ and cannot be compared."""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.engine import scoped_name
from ffn_export.fusion.views import input_at, is_standard

DRAWS = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)


def first_of(model: ir.Model) -> str | None:
    """Return operator and name of the first node that draws random numbers, or may; None without one."""
    nodes = (*model.graph.all_nodes(), *(node for f in model.functions.values() for node in f.all_nodes()))
    found = next((node for node in nodes if is_standard(node, *DRAWS) or _drops(node)), None)
    return None if found is None else f"{found.op_type} {scoped_name(found)!r}"


def _drops(node: ir.Node) -> bool:
    """Whether a Dropout is in training mode, or may be because a computed value decides it."""
    training = input_at(node, 2) if is_standard(node, "Dropout") else None
    if training is None:
        return False
    told = constants.evaluate(training)
    return told is None or bool(told.any())
