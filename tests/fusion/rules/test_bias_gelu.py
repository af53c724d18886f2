"""Bias and GELU in one node."""

from __future__ import annotations

import pytest

from tests.fusion.graphs import assert_fuses, assert_refuses, model

BIAS = "float[8] b = {1,2,3,4,-1,-2,-3,-4}"


@pytest.mark.parametrize("target", ["ort", "ort-cuda"])
@pytest.mark.parametrize("add", ["Add(x, b)", "Add(b, x)"])
@pytest.mark.parametrize(("gelu", "written"), [("Gelu(s)", "BiasGelu"), ('Gelu<approximate = "tanh">(s)', "FastGelu")])
def test_either_kind_and_operand_order(target: str, add: str, gelu: str, written: str) -> None:
    fused, _ = assert_fuses(model(f"s = {add} y = {gelu}", BIAS), [written], target)
    assert [value.name for value in fused.graph[0].inputs if value is not None] == ["x", "b"]


@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_other_targets_keep_two_nodes(target: str) -> None:
    assert_fuses(model("s = Add(x, b) y = Gelu(s)", BIAS), ["Add", "Gelu"], target)


@pytest.mark.parametrize(
    "constant",
    ["float[1] b = {2}", "float b = {2}", "float[1,8] b = {1,2,3,4,5,6,7,8}", "float[1,1,8] b = {1,2,3,4,5,6,7,8}"],
)
@pytest.mark.parametrize("add", ["Add(x, b)", "Add(b, x)"])
def test_a_bias_in_any_shape_that_holds_one_number_for_each_feature(constant: str, add: str) -> None:
    fused, _ = assert_fuses(model(f"s = {add} y = Gelu(s)", constant), ["BiasGelu"], "ort")
    row = fused.graph[0].inputs[1]
    assert row is not None
    assert row.shape == (8,)


def test_a_bias_that_is_an_input_or_an_expression() -> None:
    inputs = "float[batch,seq,8] x, float[8] b"
    assert_fuses(model("s = Add(x, b) y = Gelu(s)", inputs=inputs), ["BiasGelu"], "ort")
    assert_fuses(model("c = Neg(b) s = Add(x, c) y = Gelu(s)", BIAS), ["BiasGelu"], "ort")


@pytest.mark.parametrize(
    ("b", "y"),
    [
        ("float[3,8]", "float[2,3,8]"),  # another for each token
        ("float[3,1]", "float[2,3,8]"),
        ("float[1,1,1,8]", "float[1,2,3,8]"),  # the sum has an axis more
    ],
)
def test_a_bias_that_is_no_row_is_refused(b: str, y: str) -> None:
    size = {"float[3,8]": 24, "float[3,1]": 3, "float[1,1,1,8]": 8}[b]
    of = model(
        "s = Add(x, b) y = Gelu(s)", f"{b} b = {{{','.join(['1'] * size)}}}", inputs="float[2,3,8] x", outputs=f"{y} y"
    )
    assert_refuses(of, "not one number for each feature", "ort")


def test_a_row_that_widens_the_last_axis_is_refused() -> None:
    of = model("s = Add(x, b) y = Gelu(s)", BIAS, inputs="float[2,1] x", outputs="float[2,8] y")
    assert_refuses(of, "not one number for each feature", "ort")


def test_a_sum_of_two_computed_values_is_no_bias() -> None:
    inputs = "float[2,3,8] x, float[2,3,8] b"
    assert_refuses(model("s = Add(x, b) y = Gelu(s)", inputs=inputs, outputs="float[2,3,8] y"), None, "ort")


def test_a_second_bias_is_not_lost() -> None:
    of = model("s = Add(x, b) y = com.microsoft.FastGelu(s, b)", BIAS, domains=["com.microsoft"])
    assert_refuses(of, None, "ort")


def test_a_sum_outside_of_the_body() -> None:
    branches = """y = If (k) <then_branch = p () => (float[2,8] a) { a = Gelu(s) },
                                else_branch = e () => (float[2,8] q) { q = Neg(x) }>"""
    of = model("s = Add(x, b) " + branches, BIAS, inputs="float[2,8] x, bool k", outputs="float[2,8] y")
    assert_refuses(of, None, "ort", runs=False)


def test_a_width_that_is_not_known_is_refused() -> None:
    of = model("s = Add(x, b) y = Gelu(s)", BIAS, inputs="float[n,w] x", outputs="float[n,w] y")
    assert_refuses(of, "not one number for each feature", "ort", runs=False)


def test_a_reshape_between_the_sum_and_the_activation_is_looked_through() -> None:
    of = model(
        "s = Add(x, b) r = Reshape(s, rows) y = Gelu(r)", BIAS + ", int64[2] rows = {-1,8}", outputs="float[n,8] y"
    )
    assert_fuses(of, ["BiasGelu", "Reshape"], "ort")
    cut = model(
        "s = Add(x, b) r = Reshape(s, rows) y = Gelu(r)", BIAS + ", int64[2] rows = {-1,4}", outputs="float[n,4] y"
    )
    fused, _ = assert_fuses(cut, ["Add", "Reshape", "Gelu"], "ort")
    assert fused.opset_imports == {"": 24}


def test_a_sum_that_is_read_elsewhere_is_refused() -> None:
    of = model("s = Add(x, b) g = Gelu(s) y = Add(g, s)", BIAS)
    assert_refuses(of, "'s' is also read by Add", "ort")
