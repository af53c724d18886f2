"""Each adapter: a node of an earlier opset, raised, computes the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion import opset
from ffn_export.fusion.adapters import ADAPTERS
from ffn_export.fusion.opset import HIGHEST_OPSET
from tests.fusion.graphs import Array, assert_same_function, model

REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
    "ReduceSum",
]
X: Mapping[str, Array] = {"x": np.random.default_rng(5).uniform(0.5, 2, (2, 4, 8)).astype(np.float32)}
SHAPE = "float[2,4,8] x"


def raised(
    body: str, low: int, high: int = HIGHEST_OPSET, *, outputs: str = "float[] y", x: str = SHAPE, same: bool = True
) -> ir.Model:
    of = model(body, inputs=x, outputs=outputs, opset=low)
    assert opset.ceiling(of) == HIGHEST_OPSET
    higher = of.clone()
    opset.raise_to(higher, high)
    assert higher.opset_imports == {"": high}
    if same:
        assert_same_function(of, higher, X)
    return higher


def test_every_adapter_has_its_test_here() -> None:
    own = {"Squeeze", "Unsqueeze", "Softmax", "LogSoftmax", "Hardmax", "Split", "BatchNormalization", "Erf"}
    assert set(ADAPTERS) == {*REDUCTIONS, *own}


def test_a_batch_norm_with_one_output_is_one_of_inference() -> None:
    rows = ", ".join(f"float[4] {name} = {{1, 2, 3, 4}}" for name in "sbmv")

    def batch_norm(outputs: str) -> ir.Model:
        body = f"{outputs} = BatchNormalization(x, s, b, m, v)"
        return model(body, rows, inputs=SHAPE, outputs="float[2,4,8] y", opset=9)

    of = batch_norm("y")
    assert opset.ceiling(of) == HIGHEST_OPSET
    higher = of.clone()
    opset.raise_to(higher, 17)
    assert_same_function(of, higher, X)
    assert opset.ceiling(batch_norm("y, a, c, d, e")) == 13


def test_erf_lost_integers_and_nothing_else() -> None:
    raised("y = Erf(x)", 9)
    of_integers = model("y = Erf(x)", inputs="int32[2,4,8] x", outputs="int32[2,4,8] y", opset=9)
    assert opset.ceiling(of_integers) == 12


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("attributes", ["axes = [-1]", "axes = [0, 2]", "axes = [1], keepdims = 0", ""])
def test_reductions(operator: str, attributes: str) -> None:
    body = f"y = {operator}<{attributes}>(x)" if attributes else f"y = {operator}(x)"
    for low, high in ((11, 13), (11, 18), (11, HIGHEST_OPSET)):
        higher = raised(body, low, high)
        since = 13 if operator == "ReduceSum" else 18
        assert ("axes" in higher.graph[-1].attributes) is (bool(attributes) and high < since)


@pytest.mark.parametrize(
    "body",
    [
        "u = Unsqueeze<axes = [0, -1]>(x) y = Neg(u)",
        "u = Unsqueeze<axes = [0]>(x) y = Squeeze<axes = [0]>(u)",
        "u = Unsqueeze<axes = [0]>(x) y = Squeeze(u)",
    ],
)
def test_squeeze_and_unsqueeze(body: str) -> None:
    raised(body, 11)
    raised(body, 11, 13)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", ["axis = 2", "axis = -1"])
def test_softmax_over_the_last_axis(operator: str, axis: str) -> None:
    assert raised(f"y = {operator}<{axis}>(x)", 11).graph[0].attributes.get_int("axis") == -1


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_a_matrix_by_its_default(operator: str) -> None:
    of = model(f"y = {operator}(x)", inputs="float[3,8] x", outputs="float[3,8] y", opset=11)
    higher = of.clone()
    opset.raise_to(higher, 13)
    assert_same_function(of, higher)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(
    ("attributes", "x"),
    [("", SHAPE), ("<axis = 1>", SHAPE), ("<axis = 0>", SHAPE), ("<axis = 2>", "float[] x"), ("", "float[8] x")],
)
def test_softmax_that_flattened_several_axes_holds_the_graph(operator: str, attributes: str, x: str) -> None:
    assert opset.ceiling(model(f"y = {operator}{attributes}(x)", inputs=x, outputs="float[] y", opset=11)) == 12


@pytest.mark.parametrize(
    "split", ["a, b = Split<axis = 1>(x)", "a, b = Split<axis = 1, split = [1, 3]>(x)", "a, b = Split<axis = -1>(x)"]
)
def test_split(split: str) -> None:
    outputs = "float[] a, float[] b"
    for high in (13, 18, HIGHEST_OPSET):
        higher = raised(split, 11, high, outputs=outputs)
        counts = high >= 18 and "[1, 3]" not in split
        assert higher.graph[-1].attributes.get_int("num_outputs", 0) == (2 if counts else 0)


def test_split_of_opset_13_by_its_input() -> None:
    of = model(
        "a, b = Split<axis = 1>(x, sizes)",
        "int64[2] sizes = {1, 3}",
        inputs=SHAPE,
        outputs="float[] a, float[] b",
        opset=13,
    )
    higher = of.clone()
    opset.raise_to(higher, 18)
    assert_same_function(of, higher, X)


def test_names_that_are_taken() -> None:
    body = "y_axes = Neg(x) m = ReduceMax<axes = [-1]>(y_axes) y = ReduceMean<axes = [-1]>(m)"
    higher = raised(body, 13, outputs="float[] y, float[] y_axes")
    names = [value.name for node in higher.graph for value in node.outputs]
    assert len(names) == len(set(names)) == 5


def test_bodies() -> None:
    body = """c = ReduceMax<keepdims = 0>(x) k = Greater(c, c) y = If (k) <
        then_branch = t () => (float[2,4,1] a) { a = ReduceMean<axes = [-1]>(x) },
        else_branch = e () => (float[2,4,1] b) { b = ReduceMin<axes = [-1]>(x) }>"""
    raised(body, 13, outputs="float[2,4,1] y")


FUNCTION = '<domain: "my", opset_import: ["" : 13]> F {} (a) => (b) {{ b = ReduceMax<{}>(a) }}'


def test_functions() -> None:
    of = model(
        "t = my.F(x) y = my.F(t)",
        inputs=SHAPE,
        outputs="float[] y",
        opset=13,
        domains=["my"],
        functions=FUNCTION.format("", "axes = [-1]"),
    )
    higher = of.clone()
    opset.raise_to(higher, 20)
    assert_same_function(of, higher, X)


def test_an_attribute_that_each_call_states_holds_the_graph() -> None:
    of = model(
        "y = my.F<k = [-1]>(x)",
        inputs=SHAPE,
        outputs="float[] y",
        opset=13,
        domains=["my"],
        functions=FUNCTION.format("<k>", "axes : ints = @k"),
    )
    assert opset.ceiling(of) == 17
