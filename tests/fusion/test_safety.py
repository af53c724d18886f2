"""What holds for every rule: no value is lost, no dtype without kernels, no opset out of reach."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion import safety
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, feeds, model, operators

SILU = "s = Sigmoid(x) y = Mul(x, s)"
TWO = "float[batch,seq,8] y, float[batch,seq,8] z"
BRANCHES = """z = If (condition) <
    then_branch = yes () => (float[batch,seq,8] a) {{ {} }},
    else_branch = no () => (float[batch,seq,8] b) {{ b = Neg(x) }}>"""
WITH_CONDITION = "float[batch,seq,8] x, bool condition"


def test_intermediate_that_is_a_graph_output() -> None:
    of = model(SILU, outputs="float[batch,seq,8] y, float[batch,seq,8] s")
    report = assert_refuses(of, "intermediate 's' is a graph output")
    assert report.sites[0].status == "refused"


def test_intermediate_that_is_read_by_another_node() -> None:
    assert_refuses(model(SILU + " z = Neg(s)", outputs=TWO), "intermediate 's' is also read by Neg")


def test_intermediate_that_is_read_inside_an_if_body() -> None:
    of = model(SILU + BRANCHES.format("a = Neg(s)"), inputs=WITH_CONDITION, outputs=TWO)
    assert_refuses(of, "intermediate 's' is also read inside a subgraph")


def test_intermediate_that_is_read_inside_a_nested_body() -> None:
    inner = """a = If (condition) <
        then_branch = deep () => (float[batch,seq,8] c) { c = Neg(s) },
        else_branch = flat () => (float[batch,seq,8] d) { d = Neg(x) }>"""
    of = model(SILU + BRANCHES.format(inner), inputs=WITH_CONDITION, outputs=TWO)
    assert_refuses(of, "intermediate 's' is also read inside a subgraph")


def test_result_may_be_read_anywhere() -> None:
    of = model(SILU + BRANCHES.format("a = Neg(y)"), inputs=WITH_CONDITION, outputs=TWO)
    fused, _ = assert_fuses(of, ["Swish", "If"])
    for condition in (True, False):
        assert_same_function(of, fused, feeds(of) | {"condition": np.array(condition)})


def test_intermediate_of_the_body_that_reads_x_from_outside() -> None:
    silu = "s = Sigmoid(x) a = Mul(x, s)"
    of = model(BRANCHES.format(silu), inputs=WITH_CONDITION, outputs="float[batch,seq,8] z")
    fused, _ = assert_fuses(of, ["If"])
    assert [node.op_type for node in fused.graph.all_nodes()] == ["If", "Swish", "Neg"]


def test_match_may_not_reach_out_of_a_body() -> None:
    of = model(
        "s = Sigmoid(x)" + BRANCHES.format("a = Mul(x, s)"), inputs=WITH_CONDITION, outputs="float[batch,seq,8] z"
    )
    assert_refuses(of, None)


def test_body_of_a_loop() -> None:
    loop = """z = Loop (trips, keep, x) <body = step (int64 i, bool cond_in, float[batch,seq,8] v) => (
        bool cond_out, float[batch,seq,8] w
    ) { cond_out = Identity(cond_in) s = Sigmoid(v) w = Mul(s, v) }>"""
    of = model(loop, "int64 trips = {3}, bool keep = {1}", outputs="float[batch,seq,8] z")
    fused, _ = assert_fuses(of, ["Loop"])
    assert [node.op_type for node in fused.graph.all_nodes()] == ["Loop", "Identity", "Swish"]


def test_constants_from_outside_of_a_body() -> None:
    quick = "t = Mul(alpha, x) s = Sigmoid(t) a = Mul(s, x)"
    of = model(BRANCHES.format(quick), "float alpha = {1.702}", inputs=WITH_CONDITION, outputs="float[batch,seq,8] z")
    fused, _ = assert_fuses(of, ["If"])
    assert "Swish" in [node.op_type for node in fused.graph.all_nodes()]


@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_float64_has_no_kernels(target: str) -> None:
    assert_refuses(
        cast(model(SILU), ir.DataType.DOUBLE), "is written for float, float16 and bfloat16, 'y' is double", target
    )


def test_bfloat16_is_fused() -> None:
    fused, _ = fuse(cast(model(SILU), ir.DataType.BFLOAT16), "portable")  # onnxruntime cannot run it on CPU
    assert operators(fused) == ["Swish"]


def test_integers_are_left_alone() -> None:
    powers = "a = Mul(x, x) b = Mul(x, a) c = Pow(x, b) y = Add(c, a)"
    assert_refuses(model(powers, inputs="int64[2] x", outputs="int64[2] y"), None, runs=False)


def test_dtype_that_is_not_known() -> None:
    unknown = model("u = my.Op(x) s = Sigmoid(u) t = Mul(u, s) y = my.Op(t)", domains=["my"])
    assert_refuses(unknown, "the dtype of 't' is not known", runs=False)


def test_dtype_that_inference_finds() -> None:
    assert_fuses(model("u = Neg(x) s = Sigmoid(u) t = Mul(u, s) y = Neg(t)"), ["Neg", "Swish", "Neg"])


def test_opset_out_of_reach() -> None:
    norm = "n = GroupNormalization<num_groups = 2>(x, one, one)"
    of = model(
        f"{norm} s = Sigmoid(n) y = Mul(n, s)",
        "float[2] one = {1,1}",
        inputs="float[b,2,8] x",
        outputs="float[b,2,8] y",
        opset=18,
    )
    report = assert_refuses(of, "Swish needs opset 24; raising this graph above 20 would change one of its operators")
    assert report.opset == {"before": 18, "after": 18}


def test_function_of_the_same_name() -> None:
    own = '<domain: "", opset_import: ["" : 24]> Swish (a) => (b) { b = Neg(a) }'
    of = model(SILU, functions=own)
    assert_refuses(of, "the model has a function of its own that is named Swish", runs=False)


@pytest.mark.parametrize("opset", [25, 26])
def test_swish_above_opset_24(opset: int) -> None:
    assert_refuses(model(SILU, opset=opset), f"onnxruntime runs no Swish in a graph of opset {opset}")


def test_asks_all_of_it() -> None:
    of = model(SILU)
    nodes = list(of.graph)
    (y,) = of.graph.outputs
    assert safety.refusal(of, nodes, [y], "Swish", 24) is None
    assert safety.refusal(of, nodes, [y], "com.microsoft::QuickGelu", 1) is None
    assert "needs opset 24" in (safety.refusal(of, nodes, [y], "Swish", 23) or "")
    assert safety.refusal(of, nodes, [y], None, 1) is None  # writes no operator that was not there
    assert "is also read by Mul" in (safety.refusal(of, nodes[:1], [], None, 24) or "")
