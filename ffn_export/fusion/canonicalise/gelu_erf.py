"""``x / 2 * (1 + erf(x / sqrt(2)))`` -> ``Gelu``.

Covers: division by sqrt(2) or multiplication by its reciprocal; the product in any association and
operand order. Not covered: pieces that are in another dtype than ``x`` (Casts between them).

Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
"""

from __future__ import annotations

import math
from typing import Any

from onnxscript.rewriter import MatchResult

from ffn_export.fusion.canonicalise.half_product import ASSOCIATIONS, HalfProduct, check_constants
from ffn_export.fusion.rule import Rule


class GeluErf(HalfProduct):
    """The exact GELU."""

    @classmethod
    def variants(cls) -> list[Rule]:
        """Each association, with the argument of erf by Div or by Mul."""
        return [cls(association, spelling) for association in ASSOCIATIONS for spelling in ("Div", "Mul")]

    def pattern(self, op: Any, x: Any, half: Any, one: Any, scale: Any) -> Any:
        """Match the product."""
        argument = op.Div(x, scale) if self.spelling == "Div" else op.Mul(x, scale)
        return self.product(op, x, half, op.Add(op.Erf(argument), one))

    def check(self, op: Any, x: Any, half: Any, one: Any, scale: Any, **_: Any) -> MatchResult:
        """Refuse constants that are not those of the function."""
        number = math.sqrt(2) if self.spelling == "Div" else math.sqrt(0.5)
        return check_constants(
            "GELU",
            x,
            ("the factor of x", half, 0.5),
            ("the summand", one, 1.0),
            ("the scale in erf", scale, number),
        )

    def rewrite(self, op: Any, x: Any, **_: Any) -> Any:
        """Write the standard operator; its default is the erf kind."""
        return op.Gelu(x)
