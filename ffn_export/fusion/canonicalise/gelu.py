"""``x / 2 * (1 + erf(x / sqrt(2)))`` and its tanh approximation -> ``Gelu``.

Covers: any order and association of the product; the half as a factor of the product or of the self-gate; the product
multiplied out, ``x / 2 + x / 2 * erf(x / sqrt(2))``; division or multiplication by the reciprocal; the cube as a
power, as products, or factored ``x * (a + b * x^2)``; the approximation through a sigmoid of twice the argument. If
the graph cannot be raised to opset 20, targets for ONNX Runtime use ``com.microsoft::Gelu``.
Not covered: operators in another dtype than ``x``.

Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from ffn_export.fusion import self_gated
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Refused, Rule, replacing, standard
from ffn_export.fusion.self_gated import Gated

_TANH = {1: math.sqrt(2 / math.pi), 3: math.sqrt(2 / math.pi) * 0.044715}
_TWICE = {power: 2 * number for power, number in _TANH.items()}
_ERF = {1: math.sqrt(0.5)}


class Gelu(Rule):
    """Both kinds of GELU."""

    site = "feed_forward"
    writes = "Gelu"
    ends = standard("Mul", "Div", "Add", "Sub")

    def match(self, node: ir.Node) -> Found:
        """Recognise the product."""
        refused: Refused | None = None
        for found in self_gated.read(node):
            approximate = _approximate(found)
            problem = None if approximate is None else _problem(found, approximate)
            if approximate is None:
                continue
            if problem is None:
                return replacing(found.nodes, node.outputs[0], self.write, found.x, approximate)
            refused = refused or Refused(problem, found.nodes, found.inner)
        return refused

    def write(self, op: Builder, x: ir.Value, approximate: str) -> ir.Value:
        """Write the standard operator; its default is the erf kind."""
        return op.Gelu(x) if approximate == "none" else op.Gelu(x, approximate=approximate)


def _approximate(found: Gated) -> str | None:
    """Return the kind of GELU by the powers of the argument, or None. The constants are checked afterwards."""
    if found.kind != "sigmoid" and found.offset.number == 0:  # one term of a GELU that is multiplied out
        return None
    if found.kind == "erf" and found.argument.same_powers(_ERF):
        return "none"
    if found.kind in ("tanh", "sigmoid") and found.argument.same_powers(_TANH):
        return "tanh"
    return None


def _problem(found: Gated, approximate: str) -> str | None:
    name = "GELU" if approximate == "none" else "tanh GELU"
    if not found.is_known:
        return f"a constant of the {name} is one that the caller may change"
    argument = _ERF if approximate == "none" else _TWICE if found.kind == "sigmoid" else _TANH
    offset, slope = (0.0, 1.0) if found.kind == "sigmoid" else (0.5, 0.5)
    if not found.offset.equals(offset) or not found.slope.equals(slope):
        actual = f"{found.offset.number:.9g} + {found.slope.number:.9g} * g"
        return f"{name} wants x * ({offset:g} + {slope:g} * g), the graph has x * ({actual})"
    for power, number in argument.items():
        factor = found.argument.coefficients[power]
        if not factor.equals(number):
            return f"{name} wants the factor {number:.9g} of x^{power}, the graph has {factor.number:.9g}"
    if found.widens():
        return "a constant of the activation has an axis, which may give the result one that the input lacks"
    return None
