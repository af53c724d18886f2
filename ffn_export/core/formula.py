"""Formulas of activations in ONNX's element-wise operators, such as ``(x + Sqrt(x**2 + 4)) / 2``, as trees.

A name in lower case is an activation that one operator computes, whatever the target calls that: ``gelu(x)**2``.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ffn_export.core.words import words

X = "x"
# Standard operators without an attribute -> number of inputs.
UNARY = frozenset(
    words(
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish Neg Reciprocal Relu Round "
        "Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
    )
)
_ARITY = {
    **dict.fromkeys(UNARY, 1),
    **dict.fromkeys(words("Equal Greater GreaterOrEqual Less LessOrEqual Max Min"), 2),
    "Where": 3,
}
_SIGNS: Mapping[type[ast.operator], tuple[str, Callable[[float, float], float]]] = {
    ast.Add: ("Add", operator.add),
    ast.Sub: ("Sub", operator.sub),
    ast.Mult: ("Mul", operator.mul),
    ast.Div: ("Div", operator.truediv),
    ast.Pow: ("Pow", operator.pow),
}


@dataclass(frozen=True)
class Call:
    """An operator and what it reads.

    Attributes:
        operator: Operator of the standard domain, or the name of an activation in lower case.
        inputs: Calls, numbers, or :data:`X`, the input of the activation.
    """

    operator: str
    inputs: tuple[Term, ...]


Term = Call | float | str


@functools.cache
def parse(formula: str) -> Call:
    """Read a formula in Python's notation: operators by name, ``+ - * / **``, numbers and ``x``.

    A difference with a number is read as a sum, a quotient by one as a product, and a product with itself as a square.

    Raises:
        ValueError: If it has anything else, or does not read ``x``.

    Example:
        >>> parse("x * x - 1")
        Call(operator='Add', inputs=(Call(operator='Pow', inputs=('x', 2.0)), -1.0))
    """
    try:
        term = _term(ast.parse(formula, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"the formula {formula!r} is no expression of Python") from error
    except (ArithmeticError, TypeError) as error:  # a power may be complex
        raise ValueError(f"the formula {formula!r} has a number that is none: {error}") from error
    except RecursionError as error:
        raise ValueError("the formula is too long") from error
    if not isinstance(term, Call):
        raise ValueError(f"the formula {formula!r} has no operator")
    return term


def calls(term: Term) -> Iterator[Call]:
    """Yield each operator of a formula, the outermost first."""
    if isinstance(term, Call):
        yield term
        for each in term.inputs:
            yield from calls(each)


def _term(node: ast.expr) -> Term:
    match node:
        case ast.Name(id=name) if name == X:
            return X
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _finite(float(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _term(operand)
            return -inner if isinstance(inner, float) else Call("Neg", (inner,))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return _joined(type(sign), _term(left), _term(right))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if _inputs(name) == len(given):
            inputs = tuple(map(_term, given))
            if any(not isinstance(each, float) for each in inputs):
                return Call(name, inputs)
    raise ValueError(
        f"{ast.unparse(node)!r} in a formula: it has x, numbers, + - * / **, activations such as gelu(x), and these "
        f"operators of ONNX of x, with as many inputs as theirs: {', '.join(sorted(_ARITY))}"
    )


def _inputs(name: str) -> int | None:
    return 1 if name.islower() else _ARITY.get(name)


def _joined(sign: type[ast.operator], left: Term, right: Term) -> Term:
    """Return two terms under a sign, in the form that stands for all of their spellings."""
    name, compute = _SIGNS[sign]
    if isinstance(left, float) and isinstance(right, float):
        return _finite(float(compute(left, right)))
    if isinstance(right, float) and name == "Sub":
        return Call("Add", (left, -right))
    if isinstance(right, float) and name == "Div":
        return Call("Mul", (left, _finite(1 / right)))
    if isinstance(left, float) and name in ("Add", "Mul"):
        return Call(name, (right, left))
    if left == right and name == "Mul":
        return Call("Pow", (left, 2.0))
    return Call(name, (left, right))


def _finite(number: float) -> float:
    """Return a number, unless it is beyond the range of float64."""
    if not math.isfinite(number):
        raise OverflowError(f"{number} is not finite")
    return number
