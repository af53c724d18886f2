"""``MatMul -> Add -> activation`` -> ``com.microsoft::FusedGemm``: product, bias and activation in one kernel.

The kernel takes matrices, so inputs of other ranks are reshaped to rows and back; reshapes move no data.
Covers: with and without bias; Relu, LeakyRelu, Tanh and Elu, which are the activations of the reference
modules that the kernel knows. Not covered: a weight that is no constant matrix.
"""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import MatchResult

from ffn_export.fusion import constants
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule, refuse
from ffn_export.fusion.shapes import is_row_of

# Activation -> the attribute that the kernel calls activation_alpha, and its default by the standard.
ACTIVATIONS: dict[str, tuple[str, float] | None] = {
    "Relu": None,
    "Tanh": None,
    "LeakyRelu": ("alpha", 0.01),
    "Elu": ("alpha", 1.0),
}
_SHAPE_WITH_END = 15  # the opset whose Shape can leave out the last axis


class FusedGemm(Rule):
    """Product, bias and activation."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = "com.microsoft::FusedGemm"
    targets: ClassVar[frozenset[str] | None] = frozenset({"ort"})

    def __init__(self, activation: str, linear: str) -> None:
        super().__init__()
        self.activation = activation
        self.linear = linear

    @classmethod
    def variants(cls) -> list[Rule]:
        """Each activation after each spelling of a linear layer, those with a bias first: they match more."""
        return [cls(*spelling) for spelling in product(ACTIVATIONS, ("MatMul Add", "Gemm", "MatMul"))]

    def pattern(self, op: Any, x: Any, weight: Any, bias: Any) -> Any:
        """Match the activation of a linear layer."""
        spellings = {
            "Gemm": lambda: op.Gemm(x, weight, _allow_other_inputs=True, _outputs=["gemm"]),
            "MatMul Add": lambda: op.Add(op.MatMul(x, weight), bias),
            "MatMul": lambda: op.MatMul(x, weight),
        }
        linear = spellings[self.linear]()
        return getattr(op, self.activation)(linear, _outputs=["act"])

    def check(self, op: Any, x: Any, weight: Any, bias: Any = None, gemm: Any = None, **_: Any) -> MatchResult:
        """Refuse what is no linear layer, or a bias that is not one number for each feature."""
        if not constants.is_constant(weight) or weight.shape is None or len(weight.shape) != 2:
            return MatchResult().fail()
        if x.dtype == ir.DataType.BFLOAT16:
            return MatchResult().fail()  # the operator's schema has no bfloat16: plain nodes are the form
        if gemm is not None:
            return MatchResult()  # the kernel is Gemm's own, with an activation after it
        if x.shape is None or len(x.shape) < 2:
            return refuse("the rank of the input is not known or below 2", x)
        if bias is not None and not is_row_of(bias, weight):
            return refuse(f"bias {bias.name!r} is not one number for each feature", bias)
        if len(x.shape) > 2 and op.model.opset_imports.get("", 0) < _SHAPE_WITH_END:
            return refuse(f"reshaping to rows and back needs opset {_SHAPE_WITH_END}", x)
        return MatchResult()

    def rewrite(self, op: Any, x: Any, weight: Any, act: Any, bias: Any = None, gemm: Any = None, **_: Any) -> Any:
        """Write the kernel's operator between two reshapes, or alone for a matrix."""
        attributes: dict[str, Any] = {"activation": self.activation}
        parameter = ACTIVATIONS[self.activation]
        if parameter is not None:
            attributes["activation_alpha"] = act.producer().attributes.get_float(*parameter)
        if gemm is not None:
            node = gemm.producer()
            attributes |= {name: attribute.value for name, attribute in node.attributes.items()}
            return op.FusedGemm(*node.inputs, **attributes, _domain="com.microsoft")
        inputs = [weight] if bias is None else [weight, bias]
        if len(x.shape) == 2:
            return op.FusedGemm(x, *inputs, **attributes, _domain="com.microsoft")
        d_in, d_out = weight.shape.numpy()
        rows = op.Reshape(x, _integers(op, [-1, d_in]))
        computed = op.FusedGemm(rows, *inputs, **attributes, _domain="com.microsoft")
        shape = op.Concat(op.Shape(x, end=-1), _integers(op, [d_out]), axis=0)
        # allowzero: an empty batch is a size of 0 and not "as before".
        return op.Reshape(computed, shape, allowzero=1)


def _integers(op: Any, numbers: list[int]) -> Any:
    return op.Constant(value=ir.Tensor(np.asarray(numbers, np.int64)))
