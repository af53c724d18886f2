"""Formulas of activations: what is read, and what is refused."""

from __future__ import annotations

import pytest

from ffn_export.core.formula import Call, Term, calls, parse


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("-x", Call("Neg", ("x",))),
        ("2 * x", Call("Mul", ("x", 2.0))),
        ("x - 2", Call("Add", ("x", -2.0))),
        ("x / 4", Call("Mul", ("x", 0.25))),
        ("1 - x", Call("Sub", (1.0, "x"))),
        ("Tanh(x) * Tanh(x)", Call("Pow", (Call("Tanh", ("x",)), 2.0))),
        ("x * (2 / 3 - 1)", Call("Mul", ("x", 2 / 3 - 1))),
        ("Where(Less(x, -1), 0, x)", Call("Where", (Call("Less", ("x", -1.0)), 0.0, "x"))),
    ],
)
def test_each_spelling_of_a_function_is_one_tree(formula: str, expected: Term) -> None:
    assert parse(formula) == expected


def test_operators_come_from_the_outside() -> None:
    assert [call.operator for call in calls(parse("x * Tanh(Exp(x))"))] == ["Mul", "Tanh", "Exp"]


@pytest.mark.parametrize(
    "formula",
    ["y", "a", "Elu(x)", "Tanh(x, 1)", "x.Tanh()", "x % 2", "+x", "Tanh(2)", "x if x else 1", "'x' * 2", "True * x"],
)
def test_what_is_no_element_wise_operator(formula: str) -> None:
    with pytest.raises(ValueError, match="in a formula: it has x, numbers"):
        parse(formula)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("x *", "is no expression"),
        ("x", "has no operator"),
        ("2 + 3", "has no operator"),
        ("x + 1 / 0", "division by zero"),
        ("x + (-8) ** 0.5", "a number that is none"),
        ("1e999 * x", "inf is not finite"),
        ("x * (1e308 * 10)", "inf is not finite"),
        ("x / 1e-320", "inf is not finite"),
        ("x" + " + x" * 5000, "is too long"),
    ],
)
def test_what_is_no_formula(formula: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(formula)
