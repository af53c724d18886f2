"""Activations that no single operator computes have their name if their nodes are a chain."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.core.activations import Activation
from ffn_export.fusion import activations
from ffn_export.fusion.chains import begins, is_chain
from tests.fusion.graphs import cast, model

TWO = "float two = {2}, float three = {3}"
SCALED = ("Mul:2", "Softplus", "Tanh", "Mul:x")
SQUARED = ("Sigmoid", "Square", "Mul:x")


def is_read(chain: tuple[str, ...], body: str) -> bool:
    return is_chain(chain, (), [*model(body, TWO).graph])


def test_a_node_that_begins_a_chain_begins_an_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new chain may begin with a link, which is no activation by itself."""
    node = next(iter(model("a = Neg(x) y = Tanh(a)", TWO).graph))
    assert not activations.begins_activation(node)
    monkeypatch.setattr(activations, "_BY_CHAIN", {("Neg", "Tanh"): "negated"})
    assert activations.begins_activation(node)


@pytest.mark.parametrize(
    ("chain", "body"),
    [
        (("Neg", "Softplus"), "a = Neg(x) y = Softplus(a)"),
        (("Square", "Exp"), "a = Pow(x, two) y = Exp(a)"),
        (("Square", "Exp"), "a = Mul(x, x) y = Exp(a)"),
        (SCALED, "a = Mul(two, x) b = Softplus(a) c = Tanh(b) y = Mul(x, c)"),
        (SCALED, "a = Mul(x, two) b = Softplus(a) c = Tanh(b) y = Mul(c, x)"),
        (SQUARED, "a = Sigmoid(x) b = Mul(a, a) y = Mul(b, x)"),
    ],
)
def test_every_spelling(chain: tuple[str, ...], body: str) -> None:
    assert is_read(chain, body)


@pytest.mark.parametrize(
    ("chain", "body"),
    [
        (("Neg", "Softplus"), "a = Softplus(x) y = Neg(a)"),
        (("Neg", "Softplus"), "a = Neg(x) y = Softplus(x)"),
        (("Square", "Exp"), "a = Pow(x, three) y = Exp(a)"),
        (("Square", "Exp"), "a = Mul(x, two) y = Exp(a)"),
        (SCALED, "a = Mul(three, x) b = Softplus(a) c = Tanh(b) y = Mul(x, c)"),
        (SCALED, "a = Mul(two, x) b = Softplus(a) c = Tanh(b) y = Mul(a, c)"),
        (SQUARED, "a = Sigmoid(x) b = Mul(a, x) y = Mul(b, x)"),
        (SQUARED, "a = Sigmoid(x) b = Mul(a, a) y = Add(b, x)"),
        (SQUARED, "a = Sigmoid(x) y = Mul(a, a)"),
        (("Tanh", "Sub"), "a = Tanh(x) y = Sub(a, x)"),
        (("Pow",), "y = Pow(x, three)"),
    ],
)
def test_another_function(chain: tuple[str, ...], body: str) -> None:
    assert not is_read(chain, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Neg(x) b = Tanh(a) y = Mul(b, b)", True),
        ("a = Neg(x) b = Identity(a) c = Tanh(b) y = Pow(c, two)", True),
        ("a = Neg(x) b = Tanh(a) c = Mul(b, b) y = Exp(c)", True),
        ("a = Neg(x) y = Tanh(a)", False),
        ("a = Neg(x) b = Tanh(a) y = Exp(b)", False),
        ("a = Neg(x) b = Tanh(a) c = Mul(b, b) y = Add(a, c)", False),  # another node reads one of it
    ],
)
def test_the_node_that_begins_a_chain(body: str, expected: bool) -> None:
    assert begins(("Neg", "Tanh", "Square"), next(iter(model(body, TWO).graph))) is expected


def test_a_number_that_half_precision_rounded() -> None:
    half = cast(model("a = Mul(x, k) y = Tanh(a)", "float k = {1.702}"), ir.DataType.FLOAT16)
    assert is_chain(("Mul:1.702", "Tanh"), (), [*half.graph])
    assert not is_chain(("Mul:1.71", "Tanh"), (), [*half.graph])


@pytest.mark.parametrize(
    ("chain", "expected"),
    [(("Relu", "Square"), (("", "Relu"),)), (("Square", "Exp"), ()), (SCALED, ()), (SQUARED, ())],
)
def test_operators_that_alone_read_the_product(chain: tuple[str, ...], expected: tuple[tuple[str, str], ...]) -> None:
    assert Activation("new", chain=chain).after_product == expected
