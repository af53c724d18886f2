"""Infer shapes, and numbers computed from sizes, through each operator.

The outputs of an unlisted operator have unknown shapes and numbers. The flow of sizes still passes through it; only the
choice of sizes to try becomes less precise.
"""

from __future__ import annotations

from ffn_export.core.activations import LINKS, OPERATORS
from ffn_export.core.words import words
from ffn_export.parity.cases.sizes.computing import COMPUTING
from ffn_export.parity.cases.sizes.facts import Fact, Operation
from ffn_export.parity.cases.sizes.moving import MOVING

# Operators that return the shape of their first input: element-wise ones and normalisations.
_SAME_SHAPE = words(
    "Cast CastLike Dropout Identity IsInf IsNaN LayerNormalization LogSoftmax RMSNormalization Softmax Trilu CumSum "
    "SimplifiedLayerNormalization InstanceNormalization GroupNormalization BatchNormalization SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization"
) | {*(name for _, name in OPERATORS | LINKS)}
_RULES = {**MOVING, **COMPUTING}


def infer(op: Operation) -> Fact:
    """Return the fact of the first output."""
    rule = _RULES.get(op.node.op_type)
    if rule is not None and op.node.domain in ("", "com.microsoft"):
        return rule(op)
    first = next((each for each in op.inputs if each is not None), None)
    if op.node.op_type in _SAME_SHAPE and first is not None:
        return Fact(op.kind, first.shape)
    return Fact(op.kind)
