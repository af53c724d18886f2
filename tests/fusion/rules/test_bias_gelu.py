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
    ["float[1] b = {2}", "float b = {2}", "float[1,8] b = {1,2,3,4,5,6,7,8}"],
    ids=["length 1", "scalar", "rank 2"],
)
def test_a_bias_that_is_no_row_is_refused(constant: str) -> None:
    assert_refuses(model("s = Add(x, b) y = Gelu(s)", constant), "not one number for each feature", "ort")


def test_a_sum_that_is_read_elsewhere_is_refused() -> None:
    of = model("s = Add(x, b) g = Gelu(s) y = Add(g, s)", BIAS)
    assert_refuses(of, "'s' is also read by Add", "ort")
