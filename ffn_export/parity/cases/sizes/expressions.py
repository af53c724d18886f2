"""Expressions of sizes, which can be printed and evaluated at many sizes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ffn_export.core.types import Array

Number = int | float | bool


class Expression:
    """A number that depends on sizes. Equal expressions are one object.

    Attributes:
        operator: A key of ``_FUNCTIONS``, or ``number``, ``size`` (of a named axis) or ``unknown``.
        operands: Operands of the operator.
        value: The number, or the name of the axis or unknown.
    """

    __slots__ = ("operands", "operator", "value")

    def __init__(self, operator: str, operands: tuple[Expression, ...], value: Number | str | None) -> None:
        self.operator, self.operands, self.value = operator, operands, value

    @property
    def number(self) -> Number | None:
        """The value of a constant expression, or None if it depends on sizes."""
        return self.value if self.operator == "number" and not isinstance(self.value, str) else None

    def __str__(self) -> str:
        return _written(self, 4)


def _divided(one: Array, other: Array) -> Array:
    """Divide integers as ONNX does, rounding toward zero."""
    safe = np.where(other == 0, 1, other)
    quotient: Array = np.sign(one) * np.sign(safe) * (np.abs(one) // np.abs(safe))
    return quotient


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": _divided,
    "by": _divided,
    "/": np.true_divide,
    "%": lambda one, other: np.mod(one, np.where(other == 0, 1, other)),
    "**": lambda a, b: np.power(a * 1.0, b),
    "==": np.equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "min": np.minimum,
    "max": np.maximum,
    "where": np.where,
    "int": np.trunc,
    "bool": lambda a: a != 0,
    "abs": np.abs,
    "negative": np.negative,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "reciprocal": lambda a: 1 / a,
    "exp": np.exp,
    "log": np.log,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "relu": lambda a: np.maximum(a, 0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "erf": np.tanh,
}
# Operators whose result jumps at some size. A quotient and a remainder jump repeatedly.
CONDITIONS = frozenset({"==", "<", "<=", ">", ">=", "and", "or", "xor", "not", "bool"})
CHOICES = frozenset({"min", "max", "relu"})
_OF_EQUALS: Mapping[str, Number] = {"==": True, "<=": True, ">=": True, "<": False, ">": False, "xor": False, "-": 0}
STEPS = frozenset({"//", "%", "int", "floor", "ceil", "round"})


class Expressions:
    """Creates expressions, and returns the same object for equal ones."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Expression] = {}

    def number(self, value: Number) -> Expression:
        """Return a constant number."""
        return self._make("number", (), value)

    def size(self, axis: str) -> Expression:
        """Return the size of a symbolic axis."""
        return self._make("size", (), axis)

    def unknown(self, name: str) -> Expression:
        """Return an unknown number that depends on sizes."""
        return self._make("unknown", (), name)

    def of(self, operator: str, *operands: Expression) -> Expression:
        """Return an operator applied to operands, folded if all operands are numbers or the result is known."""
        numbers = [operand.number for operand in operands]
        if all(number is not None for number in numbers):
            with np.errstate(all="ignore"):
                return self.number(_plain(_FUNCTIONS[operator](*map(np.asarray, numbers))))
        if operator in _OF_EQUALS and operands[0] is operands[-1]:
            return self.number(_OF_EQUALS[operator])
        simpler = self._simpler(operator, operands)
        return simpler or self._make(operator, operands, None)

    def shape(self, sizes: Iterable[int]) -> tuple[Expression, ...]:
        """Return a shape of constant sizes."""
        return tuple(map(self.number, sizes))

    def product(self, factors: Iterable[Expression]) -> Expression:
        """Return the product of expressions."""
        result = self.number(1)
        for factor in factors:
            result = self.of("*", result, factor)
        return result

    @staticmethod
    def _simpler(operator: str, operands: tuple[Expression, ...]) -> Expression | None:
        """Return the operand that the result equals, or None."""
        one, other = operands[0], operands[-1]
        if operator in ("min", "max", "and", "or") and one is other:
            return one
        if operator in ("+", "*") and one.number is not None and one.number == (operator == "*"):
            return other
        if operator in ("+", "-", "*", "//") and other.number is not None and other.number == (operator in "*//"):
            return one
        return None

    def _make(self, operator: str, operands: tuple[Expression, ...], value: Number | str | None) -> Expression:
        key = operator, *map(id, operands), type(value), str(value)
        return self._made.setdefault(key, Expression(operator, operands, value))


def parts(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Yield every subexpression of the roots once, operands before the expressions that use them."""
    seen: set[int] = set()
    waiting = [(root, False) for root in roots]
    while waiting:
        current, is_done = waiting.pop()
        if is_done:
            yield current
        elif id(current) not in seen:
            seen.add(id(current))
            waiting.append((current, True))
            waiting.extend((operand, False) for operand in current.operands)


def evaluate(roots: Iterable[Expression], sizes: Mapping[str, Array], unknown: Array) -> dict[Expression, Array]:
    """Evaluate expressions and all their subexpressions for arrays of sizes, with one in place of an unknown number."""
    found: dict[Expression, Array] = {}
    with np.errstate(all="ignore"):
        for each in parts(roots):
            if each.operator == "size":
                found[each] = sizes[str(each.value)]
            elif each.operator == "unknown":
                found[each] = unknown
            elif each.operator == "number":
                found[each] = np.asarray(each.value)
            else:
                found[each] = np.asarray(_FUNCTIONS[each.operator](*(found[operand] for operand in each.operands)))
    return found


def _plain(array: Any) -> Number:
    number: Number = np.asarray(array).item()
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _written(each: Expression, depth: int) -> str:
    if not each.operands:
        return str(each.value)
    if not depth:
        return "..."
    words = [_written(operand, depth - 1) for operand in each.operands]
    if each.operator.isalpha() and each.operator not in ("and", "or", "xor"):
        return f"{each.operator}({', '.join(words)})"
    return "(" + f" {each.operator} ".join(words) + ")"
