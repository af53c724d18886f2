"""The table of activations refuses records that would be read as something else, or never."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ffn_export.core.activations import TABLE, Activation, by_name, tanh


def test_a_formula_of_what_is_no_element_wise_operator() -> None:
    with pytest.raises(ValueError, match=r"^'Softmax\(x\)' in a formula: it has x, numbers"):
        Activation("new", formula="Softmax(x)")


def test_neither_operator_nor_formula() -> None:
    with pytest.raises(ValueError, match="activation 'new' names no operator and has no formula"):
        Activation("new")


def test_a_module_without_a_formula() -> None:
    with pytest.raises(ValueError, match="activation 'new' has torch and no numpy"):
        Activation("new", ("Tanh",), torch="Tanh")
    assert Activation("new", ("Tanh",), torch="Tanh", numpy=tanh).keys == (("", "Tanh"),)


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ([Activation("one", ("Tanh",)), Activation("two", ("Tanh",))], "'Tanh'"),
        ([Activation("one", formula="Exp(x * x)"), Activation("two", formula="Exp(x**2)")], r"'Exp\(x\*\*2\)'"),
        ([Activation("one", ("Tanh",)), Activation("two", ("Erf",), aliases=("one",))], "'one'"),
    ],
)
def test_two_records_for_one_thing(records: Sequence[Activation], what: str) -> None:
    with pytest.raises(ValueError, match=f"^{what} stands for two activations, 'one' and 'two': keep one$"):
        by_name(records)


def test_two_records_of_one_name() -> None:
    with pytest.raises(ValueError, match="'one' stands for two activations"):
        by_name([Activation("one", ("Tanh",)), Activation("one", ("Erf",))])


@pytest.mark.parametrize("inner", ["gelus", "squared"])
def test_a_formula_names_activations_of_a_single_operator(inner: str) -> None:
    gelu, squared = Activation("gelu", ("Gelu",)), Activation("squared", formula="gelu(x)**2")
    assert by_name([squared, gelu])["squared"].inner == ("gelu",)
    with pytest.raises(ValueError, match=f"^'{inner}' in the formula of 'new' is no activation of a single operator$"):
        by_name([gelu, squared, Activation("new", formula=f"Tanh({inner}(x))")])


def test_the_table_is_one_of_these() -> None:
    assert dict(by_name(TABLE.values())) == dict(TABLE)
