"""Swish as ONNX Runtime's QuickGelu, for the target that asks for it."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.provenance import RULE_KEY
from tests.fusion.graphs import Writer, Y, assert_fuses, assert_refuses, assert_same_function, body, cast, model


@pytest.mark.parametrize(
    ("swish", "alpha"),
    [("Swish", 1.0), ("Swish<alpha = 1.0>", 1.0), ("Swish<alpha = 1.702>", 1.702), ("Swish<alpha = -2.0>", -2.0)],
)
def test_hands_on_alpha(swish: str, alpha: float) -> None:
    fused, report = assert_fuses(model(f"y = {swish}(x)"), ["QuickGelu"], "ort-cpu")
    assert fused.graph[0].attributes.get_float("alpha") == pytest.approx(alpha)
    assert fused.graph[0].domain == "com.microsoft"
    assert fused.opset_imports == {"": 24, "com.microsoft": 1}
    assert report.rules == {"quick-gelu": 1}


@pytest.mark.parametrize("opset", [14, 18, 20, 24, 25, 26])
@pytest.mark.parametrize("order", range(4))
def test_decomposed_at_any_opset(opset: int, order: int) -> None:
    op = Writer(order)
    op("Mul", "x", op("Sigmoid", op("Mul", "x", "alpha")), to="y")
    plain = Writer(order)
    plain("Mul", "x", plain("Sigmoid", "x"), to="z")
    of = model(
        body(op, plain), "float alpha = {1.702}", outputs="float[batch,seq,8] y, float[batch,seq,8] z", opset=opset
    )
    fused, report = assert_fuses(of, ["QuickGelu"] * 2, "ort-cpu")
    assert fused.opset_imports == {"": opset, "com.microsoft": 1}
    assert report.rules == {"quick-gelu": 2}
    assert [node.attributes.get_float("alpha") for node in fused.graph] == pytest.approx([1.702, 1.0])


def test_needs_no_opset_even_where_the_graph_cannot_be_raised() -> None:
    of = model("n = Softmax<axis = 1>(x) s = Sigmoid(n) y = Mul(s, n)", opset=12)
    assert_fuses(of, ["Softmax", "QuickGelu"], "ort-cpu")
    assert_refuses(of, "Swish needs opset 24; raising this graph above 12")


@pytest.mark.parametrize("opset", [25, 26])
def test_swish_that_onnxruntime_does_not_run(opset: int) -> None:
    of = model("y = Swish<alpha = 1.5>(x)", opset=opset)
    fused, _ = fuse(of, "ort-cpu")
    assert_same_function(model("y = Swish<alpha = 1.5>(x)", opset=24), fused)


def test_between_transposes() -> None:
    silu = "t = Transpose<perm = [0,2,1]>(x) s = Sigmoid(t) a = Mul(t, s) y = Transpose<perm = [0,2,1]>(a)"
    fused, report = assert_fuses(model(silu), ["QuickGelu"], "ort-cpu")
    assert report.rules == {"quick-gelu": 1, "transposed-activation": 1}
    assert fused.graph[0].metadata_props[RULE_KEY] == "quick-gelu+transposed-activation"


@pytest.mark.parametrize(
    ("body", "constants", "reason"),
    [
        ("t = Mul(x, b) s = Sigmoid(t) y = Mul(x, s)", "float[8] b = {1,2,3,4,5,6,7,8}", None),
        ("t = Mul(b, x) s = Sigmoid(t) y = Mul(s, x)", "float[1,1,1,1] b = {1.5}", "alpha has an axis"),
        ("s = Sigmoid(x) t = Add(s, b) y = Mul(x, t)", "float b = {1.5}", None),
    ],
)
def test_asks_the_nodes_as_the_canonical_rule_does(body: str, constants: str, reason: str | None) -> None:
    of = model(body, constants, outputs="float[1,batch,seq,8] y" if reason else Y)
    assert_refuses(of, reason, "ort-cpu")


def test_slope_that_would_widen_a_scalar() -> None:
    of = model("t = Mul(x, b) s = Sigmoid(t) y = Mul(x, s)", "float[1] b = {2}", inputs="float x", outputs="float[1] y")
    assert_refuses(of, "alpha has an axis", "ort-cpu")


def test_float16() -> None:
    assert_fuses(cast(model("y = Swish<alpha = 1.702>(x)"), ir.DataType.FLOAT16), ["QuickGelu"], "ort-cpu")


def test_an_alpha_that_is_no_number_stays() -> None:
    assert_refuses(model('y = Swish<alpha = "one">(x)'), None, "ort-cpu", runs=False)


def test_not_for_portable() -> None:
    fused, _ = assert_fuses(model("y = Swish(x)"), ["Swish"])
    assert fused.opset_imports == {"": 24}


def test_float64() -> None:
    double = model("y = Swish(x)", inputs="double[2,8] x", outputs="double[2,8] y")
    assert_refuses(
        double, "com.microsoft::QuickGelu is written for float, float16 and bfloat16, 'y' is double", "ort-cpu"
    )


def test_a_function_of_the_model_with_that_name() -> None:
    own = '<domain: "com.microsoft", opset_import: ["" : 24]> QuickGelu (a) => (b) { b = Neg(a) }'
    taken = model("z = com.microsoft.QuickGelu(x) y = Swish(z)", domains=["com.microsoft"], functions=own)
    assert_refuses(taken, "the model has a function of its own that is named com.microsoft::QuickGelu", "ort-cpu")
