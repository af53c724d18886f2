"""Types that the graph does not state are filled in; those that it does, and its names, stay."""

from __future__ import annotations

import logging

import onnx_ir as ir
import pytest

from ffn_export.fusion.inference import fill_types, forget_names
from tests.fusion.graphs import X, model


def shapes(of: ir.Model) -> dict[str, str]:
    return {str(value.name): str(value.shape) for node in of.graph for value in node.outputs}


def test_fills_in_dtype_and_shape() -> None:
    of = model("a = Neg(x) b = Transpose<perm = [0,2,1]>(a) y = Identity(x)")
    fill_types(of)
    assert shapes(of) == {"a": "[batch,seq,8]", "b": "[batch,8,seq]", "y": "[batch,seq,8]"}
    assert {node.outputs[0].dtype for node in of.graph} == {ir.DataType.FLOAT}


def test_axes_without_a_name_do_not_get_one() -> None:
    of = model("a = Neg(x) y = Neg(a)", inputs="float[?,seq,8] x", outputs="float[?,seq,8] y")
    own = fill_types(of)
    assert shapes(of)["a"] == "[unnamed_axis_0,seq,8]"  # while rules ask
    forget_names(of, own)
    assert [str(v.shape) for v in (*of.graph.inputs, *of.graph.outputs)] == ["[None,seq,8]", "[None,seq,8]"]
    assert shapes(of)["a"] == "[None,seq,8]"


def test_what_is_stated_stays() -> None:
    of = model("a = Neg(x) y = Neg(a)", outputs="float[b,s,8] y")
    of.graph[0].outputs[0].shape = ir.Shape(["mine", None, 8])
    own = fill_types(of)
    assert own == {"batch", "seq", "mine", "b", "s"}
    forget_names(of, own)
    assert shapes(of) == {"a": "[mine,seq,8]", "y": "[b,s,8]"}


def test_output_of_unknown_rank_stays_so() -> None:
    of = model("a = Neg(x) y = Neg(a)", outputs="float[] y")
    fill_types(of)
    assert of.graph.outputs[0].shape is None
    assert shapes(of)["a"] == "[batch,seq,8]"


def test_after_an_operator_that_nobody_knows() -> None:
    of = model("u = my.Op(x) v = Neg(u) a = Neg(x) y = Add(a, v)", domains=["my"])
    fill_types(of)
    assert shapes(of) == {"u": "None", "v": "None", "a": "[batch,seq,8]", "y": "[batch,seq,8]"}


def test_bodies() -> None:
    branches = """y = If (c) <then_branch = t () => (float[b,s,8] o) { a = Neg(x) o = Neg(a) },
                                else_branch = e () => (float[b,s,8] p) { p = Neg(x) }>"""
    of = model(branches, inputs="float[b,s,8] x, bool c", outputs="float[b,s,8] y")
    fill_types(of)
    assert {str(n.outputs[0].shape) for n in of.graph.all_nodes()} == {"[b,s,8]"}


def test_bodies_that_read_what_only_the_symbolic_inference_knows() -> None:
    branches = """y = If (c) <then_branch = t () => (float[b,s,8] o) { a = Neg(u) o = Neg(a) },
                                else_branch = e () => (float[b,s,8] p) { p = Neg(u) }>"""
    of = model(f"u = com.microsoft.FastGelu(x) {branches}", inputs=f"{X}, bool c", domains=["com.microsoft"])
    fill_types(of)
    assert {str(n.outputs[0].shape) for n in of.graph.all_nodes() if n.op_type == "Neg"} >= {"[batch,seq,8]"}


def test_contradiction_is_left_alone_and_quiet(caplog: pytest.LogCaptureFixture) -> None:
    of = model("a = Neg(x) b = MatMul(a, a) y = Identity(b)", inputs="float[2,3] x", outputs="float[7] y")
    with caplog.at_level(logging.DEBUG):
        fill_types(of)
    assert caplog.records == []
    assert str(of.graph.outputs[0].shape) == "[7]"


def test_initializers_and_interface_are_as_before() -> None:
    large = "float[8,64] w = {" + ",".join(["0.5"] * 512) + "}"
    of = model("h = MatMul(x, w) y = Neg(h)", large, outputs="float[batch,seq,64] y")
    weight = of.graph.initializers["w"].const_value
    fill_types(of)
    assert of.graph.initializers["w"].const_value is weight
    assert [value.name for value in of.graph.inputs] == ["x"]


def test_nothing_to_do() -> None:
    of = model("y = Neg(x)")
    before = of.graph.outputs[0].shape
    fill_types(of)
    assert of.graph.outputs[0].shape is before
