"""The table of activations refuses records that would be read as something else, or never."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ffn_export.core.activations import TABLE, Activation, by_name, tanh


@pytest.mark.parametrize("link", ["Mul:y", "Mul:", "Mul:nan", "Mul:inf", "Mul", "Atann", "Softmax", "Elu", "square"])
def test_a_chain_of_what_is_no_element_wise_operator(link: str) -> None:
    with pytest.raises(ValueError, match=f"'{link}' in the chain of activation 'new': a chain has element-wise"):
        Activation("new", chain=("Neg", link))


def test_a_chain_that_begins_with_a_product_of_its_input_alone() -> None:
    with pytest.raises(ValueError, match=r"'Mul:x' in the chain of activation 'new'.* after its first node 'Mul:x'$"):
        Activation("new", chain=("Mul:x", "Tanh"))


def test_neither_operator_nor_chain() -> None:
    with pytest.raises(ValueError, match="activation 'new' names no operator and no chain"):
        Activation("new")


def test_a_module_without_a_formula() -> None:
    with pytest.raises(ValueError, match="activation 'new' has torch and no numpy"):
        Activation("new", ("Tanh",), torch="Tanh")
    assert Activation("new", ("Tanh",), torch="Tanh", numpy=tanh).keys == (("", "Tanh"),)


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ([Activation("one", ("Tanh",)), Activation("two", ("Tanh",))], "'Tanh'"),
        ([Activation("one", chain=("Neg", "Exp")), Activation("two", chain=("Neg", "Exp"))], r"\('Neg', 'Exp'\)"),
        ([Activation("one", ("Tanh",)), Activation("two", ("Erf",), aliases=("one",))], "'one'"),
    ],
)
def test_two_records_for_one_thing(records: Sequence[Activation], what: str) -> None:
    with pytest.raises(ValueError, match=f"^{what} stands for two activations, 'one' and 'two': keep one$"):
        by_name(records)


def test_two_records_of_one_name() -> None:
    with pytest.raises(ValueError, match="'one' stands for two activations"):
        by_name([Activation("one", ("Tanh",)), Activation("one", ("Erf",))])


def test_the_table_is_one_of_these() -> None:
    assert dict(by_name(TABLE.values())) == dict(TABLE)
