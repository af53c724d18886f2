"""Shape rules of operators whose result has the shape of an input, or the broadcast shape of all inputs."""

from __future__ import annotations

from collections.abc import Mapping

from ffn_export.core.activations import LINKS, OPERATORS
from ffn_export.fusion.shape_proofs.facts import Rule, Shape, View

# Operators whose result has the shape of the first input.
_LIKE_FIRST = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Cos Cosh CumSum DequantizeLinear Erf Exp EyeLike
    Floor GroupNormalization Hardmax Identity InstanceNormalization IsInf IsNaN LRN Log LogSoftmax LpNormalization
    MeanVarianceNormalization Neg Not PRelu QuantizeLinear RMSNormalization Reciprocal Round RotaryEmbedding
    ScatterElements ScatterND Shrink Sign Sin Sinh Softmax Sqrt Tan TensorScatter Trilu
"""
_LIKE_FIRST_OF_ORT = "BiasAdd BiasSoftmax RotaryEmbedding"
_BROADCAST = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod
    Mul Or Pow Sub Sum Where Xor
"""


def like_first(view: View) -> Shape | None:
    """Return the shape of the first input."""
    return view.shape()


def broadcast(view: View) -> Shape | None:
    """Return the broadcast shape of all inputs (NumPy's rule, from opset 7 on)."""
    if view.opset < 7:
        return None
    return view.broadcast(view.shape(index) for index in range(len(view.node.inputs)))


ELEMENTWISE: Mapping[tuple[str, str], Rule] = {
    **dict.fromkeys(OPERATORS | LINKS, like_first),
    **dict.fromkeys((("", name) for name in _LIKE_FIRST.split()), like_first),
    **dict.fromkeys((("com.microsoft", name) for name in _LIKE_FIRST_OF_ORT.split()), like_first),
    **dict.fromkeys((("", name) for name in _BROADCAST.split()), broadcast),
    ("", "Dropout"): lambda view: [view.shape(), view.shape()],  # the result and its mask
    ("", "BatchNormalization"): lambda view: [view.shape(), view.shape(3), view.shape(4)],
    ("", "DynamicQuantizeLinear"): lambda view: [view.shape(), (), ()],  # numbers, scale and zero point
}
