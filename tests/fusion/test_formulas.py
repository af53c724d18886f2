"""Activations that no single operator computes have their name if their nodes compute their formula."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.core.activations import Activation
from ffn_export.core.formula import parse
from ffn_export.fusion import activations
from ffn_export.fusion.formulas import begins, computes
from tests.fusion.graphs import cast, model

_VALUES = {"zero": 0, "half": 0.5, "one": 1, "near_two": 1.9999999, "two": 2, "three": 3, "four": 4}
NUMBERS = ", ".join(f"float {name} = {{{value}}}" for name, value in _VALUES.items())
SCALED = "x * Tanh(Softplus(2 * x))"
SQUARED = "Sigmoid(x)**2 * x"
SQUAREPLUS = "(x + Sqrt(x**2 + 4)) / 2"
SHRUNK = "Where(LessOrEqual(Abs(x), 0.5), 0, x)"


def is_read(formula: str, body: str) -> bool:
    return computes(parse(formula), (), [*model(body, NUMBERS).graph])


def test_a_node_that_begins_a_formula_begins_an_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new formula may begin with an operator that is no activation by itself."""
    node = next(iter(model("a = Neg(x) y = Tanh(a)", NUMBERS).graph))
    assert not activations.begins_activation(node)
    monkeypatch.setattr(activations, "_FORMULAS", {"negated": parse("Tanh(-x)")})
    assert activations.begins_activation(node)


@pytest.mark.parametrize(
    ("formula", "body"),
    [
        ("Softplus(-x)", "a = Neg(x) y = Softplus(a)"),
        ("Exp(x**2)", "a = Pow(x, two) y = Exp(a)"),
        ("Exp(x * x)", "a = Mul(x, x) y = Exp(a)"),
        (SCALED, "a = Mul(two, x) b = Softplus(a) c = Tanh(b) y = Mul(x, c)"),
        (SCALED, "a = Mul(x, two) b = Softplus(a) c = Tanh(b) y = Mul(c, x)"),
        (SCALED, "a = Div(x, half) b = Softplus(a) c = Tanh(b) y = Mul(c, x)"),
        (SQUARED, "a = Sigmoid(x) b = Mul(a, a) y = Mul(b, x)"),
        (SQUAREPLUS, "a = Mul(x, x) b = Add(a, four) c = Sqrt(b) d = Add(x, c) y = Div(d, two)"),
        (SQUAREPLUS, "a = Pow(x, two) b = Add(four, a) c = Sqrt(b) d = Add(c, x) y = Mul(half, d)"),
        ("x - Tanh(x)", "a = Tanh(x) y = Sub(x, a)"),
        ("Relu(x) - 1", "a = Relu(x) y = Sub(a, one)"),
        ("x / (1 + Abs(x))", "a = Abs(x) b = Add(a, one) y = Div(x, b)"),
        ("1 / Exp(x)", "a = Exp(x) y = Reciprocal(a)"),
        ("Reciprocal(Exp(x))", "a = Exp(x) y = Div(one, a)"),
        ("x * Sin(2 * x) + x / 2", "a = Mul(x, two) b = Sin(a) c = Mul(b, x) d = Mul(x, half) y = Add(d, c)"),
        (SHRUNK, "a = Abs(x) b = LessOrEqual(a, half) y = Where(b, zero, x)"),
        ("gelu(x)**2", "a = Gelu(x) y = Mul(a, a)"),
        ("gelu(x)**2", "a = com.microsoft.Gelu(x) y = Pow(a, two)"),
        ("gelu(x)**2", "a = com.microsoft.BiasGelu(x, one) y = Pow(a, two)"),
        ("gelu_tanh(x)**2", "a = com.microsoft.FastGelu(x) y = Mul(a, a)"),
        ("x * Tanh(silu(-x))", "n = Neg(x) a = com.microsoft.QuickGelu<alpha = 1.0>(n) b = Tanh(a) y = Mul(b, x)"),
    ],
)
def test_every_spelling(formula: str, body: str) -> None:
    assert is_read(formula, body)


@pytest.mark.parametrize(
    ("formula", "body"),
    [
        ("Softplus(-x)", "a = Softplus(x) y = Neg(a)"),
        ("Exp(x**2)", "a = Pow(x, three) y = Exp(a)"),
        ("Exp(x**2)", "a = Mul(x, two) y = Exp(a)"),
        (SCALED, "a = Mul(three, x) b = Softplus(a) c = Tanh(b) y = Mul(x, c)"),
        (SCALED, "a = Div(x, two) b = Softplus(a) c = Tanh(b) y = Mul(x, c)"),
        (SCALED, "a = Mul(two, x) b = Softplus(a) c = Tanh(b) y = Mul(a, c)"),
        (SQUARED, "a = Sigmoid(x) b = Mul(a, x) y = Mul(b, x)"),
        (SQUARED, "a = Sigmoid(x) b = Mul(a, a) y = Add(b, x)"),
        (SQUARED, "a = Sigmoid(x) y = Mul(a, a)"),
        (SQUAREPLUS, "a = Mul(x, x) b = Add(a, one) c = Sqrt(b) d = Add(x, c) y = Div(d, two)"),
        (SQUAREPLUS, "a = Mul(x, x) b = Sub(a, four) c = Sqrt(b) d = Add(x, c) y = Div(d, two)"),
        (SQUAREPLUS, "a = Mul(x, x) b = Add(a, four) c = Sqrt(b) d = Add(x, c) y = Div(two, d)"),
        ("x - Tanh(x)", "a = Tanh(x) y = Sub(a, x)"),
        ("x / (1 + Abs(x))", "a = Abs(x) b = Add(a, one) y = Div(b, x)"),
        (SHRUNK, "a = Abs(x) b = LessOrEqual(a, half) y = Where(b, x, zero)"),
        ("Exp(x**3)", "a = Mul(x, x) y = Exp(a)"),
        ("gelu(x)**2", 'a = Gelu<approximate = "tanh">(x) y = Mul(a, a)'),
        ("silu(x)**2", "a = Swish<alpha = 2.0>(x) y = Mul(a, a)"),
        ("x * gelu(x)", "a = com.microsoft.BiasGelu(x, one) y = Mul(a, x)"),  # of x with a bias
        ("Exp(x**2)", "a = Pow(x, near_two) y = Exp(a)"),
        ("x * Tanh(x)", "a = Tanh(x) b = Transpose(a) y = Mul(x, b)"),
        ("x * Tanh(x)", "b = Transpose(x) a = Tanh(b) y = Mul(x, a)"),
        ("Tanh(x)", "a = Neg(x) y = Tanh(a)"),  # one more node
    ],
)
def test_another_function(formula: str, body: str) -> None:
    assert not is_read(formula, body)


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
def test_the_node_that_begins_a_formula(body: str, expected: bool) -> None:
    assert begins(parse("Tanh(-x)**2"), next(iter(model(body, NUMBERS).graph))) is expected


@pytest.mark.parametrize(
    ("formula", "rest", "expected"),
    [
        ("Relu(x)**2", "y = Mul(g, g)", True),
        ("relu(x)**2", "y = Mul(g, g)", True),
        ("Tanh(x)**2", "y = Mul(g, g)", False),
        ("Relu(x)**2", "y = Add(g, g)", False),
        ("x * Relu(x)", "y = Mul(x, g)", False),  # x is not what the product holds
    ],
)
def test_a_first_product_that_holds_an_operator(formula: str, rest: str, expected: bool) -> None:
    gemm = 'g = com.microsoft.FusedGemm<activation = "Relu">(x, w)'
    first, *nodes = model(f"{gemm} {rest}", f"float[8,8] w = {{{', '.join('0' * 64)}}}").graph
    assert computes(parse(formula), [first], nodes) is expected


def test_a_sum_with_a_number_may_be_a_bias_or_belong_to_the_formula() -> None:
    bias, *nodes = model("a = Add(x, three) b = Relu(a) y = Mul(b, x)", NUMBERS).graph
    shifted, plain = parse("x * Relu(x + 3)"), parse("Relu(x)**2")
    assert computes(shifted, (), nodes, [bias])
    assert not computes(shifted, (), nodes)
    bias, *nodes = model("a = Add(x, three) b = Relu(a) y = Mul(b, b)", NUMBERS).graph
    assert computes(plain, (), nodes, [bias])


def test_a_reader_without_a_result() -> None:
    graph = model("a = Neg(x) y = Tanh(a)", NUMBERS).graph
    graph.append(ir.Node("my", "Print", [graph[0].outputs[0]], num_outputs=0))
    assert not begins(parse("Tanh(-x)**2"), graph[0])


def test_equal_operands_are_read_once() -> None:
    """Each level in both orders would be 2^(2^n) ways."""
    body = "a = Add(x, x) b = Add(a, a) c = Add(b, b) d = Add(c, c) e = Add(d, d) y = Add(e, e)"
    term = "x + x"
    for _ in range(5):
        term = f"({term}) + ({term})"
    assert is_read(term, body)


def test_each_node_that_reads_the_input_begins_the_formula() -> None:
    graph = [*model("a = Mul(x, x) b = Add(a, four) c = Sqrt(b) d = Add(x, c) y = Div(d, two)", NUMBERS).graph]
    assert [begins(parse(SQUAREPLUS), node) for node in graph] == [True, False, False, True, False]


def test_a_number_that_half_precision_rounded() -> None:
    half = cast(model("a = Mul(x, k) y = Tanh(a)", "float k = {1.702}"), ir.DataType.FLOAT16)
    assert computes(parse("Tanh(1.702 * x)"), (), [*half.graph])
    assert not computes(parse("Tanh(1.71 * x)"), (), [*half.graph])


@pytest.mark.parametrize(
    ("formula", "expected"),
    [("Relu(x)**2", (("", "Relu"),)), ("Exp(x**2)", ()), (SCALED, ()), (SQUARED, ()), ("Sqrt(x + 1)", ())],
)
def test_operators_that_alone_read_the_product(formula: str, expected: tuple[tuple[str, str], ...]) -> None:
    assert Activation("new", formula=formula).after_product == expected
