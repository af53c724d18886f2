"""Means, mean squares and centred values, and when two values are one."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion import algebra, statistics
from ffn_export.fusion.inference import prove_shapes
from tests.fusion.graphs import model

CONSTANTS = """int64[1] axes = {-1}, int64[1] first = {0}, int64[2] both = {1,2}, float eight = {8},
    float eighth = {0.125}, float epsilon = {0.25}, float two = {2}, float three = {3},
    float sixteen = {16}, float m1 = {-1}"""


def graph(body: str, x: str = "float[3,2,8] x") -> ir.Graph:
    of = model(body, CONSTANTS, inputs=f"{x}, {x.replace(' x', ' z')}", outputs="float[] y")
    prove_shapes(of)
    return of.graph


def mean(body: str, **options: str) -> statistics.Mean | None:
    of = graph(body, **options)
    return statistics.mean(algebra.product(of.outputs[0], of), of)


@pytest.mark.parametrize(
    ("body", "axes", "squared"),
    [
        ("y = ReduceMean(x, axes)", 1, False),
        ("y = ReduceMean(x, both)", 2, False),
        ("s = ReduceSum(x, axes) y = Div(s, eight)", 1, False),
        ("s = ReduceSum(x, axes) y = Mul(eighth, s)", 1, False),
        ("s = ReduceSum(x, both) y = Div(s, sixteen)", 2, False),
        ("s = ReduceSumSquare(x, axes) y = Div(s, eight)", 1, True),
        ("k = ReduceMean<keepdims = 0>(x, axes) y = Unsqueeze(k, axes)", 1, False),
        ("k = ReduceMean<keepdims = 0>(x, both) y = Unsqueeze(k, both)", 2, False),
    ],
)
def test_mean(body: str, axes: int, squared: bool) -> None:
    found = mean(body)
    assert found is not None
    assert (found.source.name, found.axes, found.squared, found.problem) == ("x", axes, squared, None)


@pytest.mark.parametrize(
    "body",
    [
        "y = ReduceMax(x, axes)",
        "y = Neg(x)",
        "m = ReduceMean(x, axes) y = Div(two, m)",
        "y = Mul(two, eight)",
        "m = ReduceMean(x, axes) y = Mul(m, m)",
        "m = ReduceMean(x, axes) n = Neg(m) y = Mul(n, two)",
    ],
)
def test_what_is_no_mean(body: str) -> None:
    assert mean(body) is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("y = ReduceSum(x, axes)", "is 8 times the mean"),
        ("s = ReduceSum(x, axes) y = Div(s, two)", "is 4 times the mean"),
        ("m = ReduceMean(x, axes) y = Mul(m, two)", "is 2 times the mean"),
        ("y = ReduceMean(x, first)", "not taken over constant trailing axes"),
        ("y = ReduceMean(x)", "not taken over constant trailing axes"),
        ("y = ReduceMean<keepdims = 0>(x, axes)", "drops its axes"),
        ("m = ReduceMean(x, axes) y = Unsqueeze(m, axes)", "an axis more"),
        ("k = ReduceMean<keepdims = 0>(x, axes) y = Unsqueeze(k, first)", "in another place"),
    ],
)
def test_a_mean_that_no_norm_takes(body: str, problem: str) -> None:
    found = mean(body)
    assert found is not None
    assert problem in str(found.problem)


def test_a_mean_of_another_graph_is_none() -> None:
    of = graph("y = ReduceMean(x, axes)")
    assert statistics.mean(algebra.product(of.outputs[0], of), object()) is None


def test_a_sum_over_an_axis_of_unknown_size_is_no_mean() -> None:
    assert mean("s = ReduceSum(x, axes) y = Div(s, eight)", x="float[n,w] x") is None


@pytest.mark.parametrize(
    ("body", "epsilon"),
    [
        ("p = Mul(x, x) m = ReduceMean(p, axes) y = Add(m, epsilon)", 0.25),
        ("p = Pow(x, two) m = ReduceMean(p, axes) y = Add(epsilon, m)", 0.25),
        ("p = Pow(x, two) m = ReduceMean(p, axes) a = Add(epsilon, m) y = Add(a, two)", 2.25),
        ("p = Pow(x, two) y = ReduceMean(p, axes)", 0.0),
    ],
)
def test_mean_square(body: str, epsilon: float) -> None:
    of = graph(body)
    found = statistics.mean_square(of.outputs[0], of)
    assert found is not None
    assert (found.root.name, found.epsilon, found.problem) == ("x", epsilon, None)
    assert isinstance(found.epsilon, float)


@pytest.mark.parametrize(
    "body",
    [
        "p = Mul(x, z) m = ReduceMean(p, axes) y = Add(m, epsilon)",
        "p = Pow(x, three) y = ReduceMean(p, axes)",
        "p = Mul(x, x) m = ReduceMean(p, axes) y = Sub(m, epsilon)",
        "p = Mul(x, x) m = ReduceMean(p, axes) y = Add(m, m)",
        "y = ReduceMean(x, axes)",
    ],
)
def test_what_is_no_mean_square(body: str) -> None:
    of = graph(body)
    assert statistics.mean_square(of.outputs[0], of) is None


@pytest.mark.parametrize(
    "body",
    [
        "m = ReduceMean(x, axes) y = Sub(x, m)",
        "m = ReduceMean(x, axes) n = Neg(m) y = Add(n, x)",
        "m = ReduceMean(x, axes) n = Mul(m, m1) y = Add(x, n)",
        "s = ReduceSum(x, axes) m = Div(s, eight) y = Sub(x, m)",
    ],
)
def test_centred(body: str) -> None:
    of = graph(body)
    found = statistics.centred(of.outputs[0], of)
    assert found is not None
    assert (found.x.name, found.axes) == ("x", 1)


@pytest.mark.parametrize(
    "body",
    [
        "m = ReduceMean(x, axes) y = Add(x, m)",
        "m = ReduceMean(z, axes) y = Sub(x, m)",
        "m = ReduceMean(x, axes) y = Sub(m, x)",
        "m = ReduceMean(x, first) y = Sub(x, m)",
        "s = ReduceSumSquare(x, axes) m = Div(s, eight) y = Sub(x, m)",
    ],
)
def test_what_is_not_centred(body: str) -> None:
    of = graph(body)
    assert statistics.centred(of.outputs[0], of) is None


def test_values_that_are_one() -> None:
    of = graph(
        "a = Sub(x, z) b = Sub(x, z) c = Sub(z, x) d = Cast<to = 1>(a) e = Cast<to = 1>(b) f = Cast<to = 11>(a) "
        "g = Neg(x) h = Neg(x) y = Identity(x)"
    )
    values = {str(value.name): value for node in of for value in node.outputs}
    same = [(a, b) for a in values for b in values if a < b and statistics.are_same(values[a], values[b])]
    assert same == [("a", "b"), ("d", "e")]
    assert not statistics.are_same(None, None)
