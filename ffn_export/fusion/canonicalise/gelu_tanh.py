"""``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`` -> ``Gelu(approximate="tanh")``.

Covers: the cube as ``Pow`` or as two products; the outer product in any association and operand
order. Not covered: the factored argument ``x * (a + b * x^2)``.

Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
"""

from __future__ import annotations

import math
from typing import Any

from onnxscript.rewriter import MatchResult

from ffn_export.fusion.canonicalise.half_product import ASSOCIATIONS, HalfProduct, check_constants
from ffn_export.fusion.rule import Rule


class GeluTanh(HalfProduct):
    """The tanh approximation of the GELU."""

    @classmethod
    def variants(cls) -> list[Rule]:
        """Each association, with the cube by Pow or by Mul."""
        return [cls(association, spelling) for association in ASSOCIATIONS for spelling in ("Pow", "Mul")]

    def pattern(self, op: Any, x: Any, half: Any, one: Any, outer: Any, inner: Any, exponent: Any) -> Any:
        """Match the product."""
        cube = op.Pow(x, exponent) if self.spelling == "Pow" else op.Mul(x, op.Mul(x, x))
        tanh = op.Tanh(op.Mul(outer, op.Add(x, op.Mul(inner, cube))))
        return self.product(op, x, half, op.Add(tanh, one))

    def check(
        self, op: Any, x: Any, half: Any, one: Any, outer: Any, inner: Any, exponent: Any = None, **_: Any
    ) -> MatchResult:
        """Refuse constants that are not those of the function."""
        exponents = [("the exponent", exponent, 3.0)] if self.spelling == "Pow" else []
        return check_constants(
            "tanh GELU",
            x,
            *exponents,
            ("the factor of x", half, 0.5),
            ("the summand", one, 1.0),
            ("sqrt(2/pi)", outer, math.sqrt(2 / math.pi)),
            ("the factor of the cube", inner, 0.044715),
        )

    def rewrite(self, op: Any, x: Any, **_: Any) -> Any:
        """Write the standard operator."""
        return op.Gelu(x, approximate="tanh")
