"""One node for each feed-forward: the same numbers, bit for bit, wherever ONNX Runtime's optimiser stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.fusion.functions.inline import DOMAIN, written_out
from ffn_export.fusion.functions.outline import outline, outlined
from ffn_export.fusion.pipeline import fuse
from tests.fusion.conftest import SOME_EXPORTS, Exported
from tests.fusion.graphs import Array, assert_interface_kept, feeds, model, operators, run, whole
from tests.fusion.test_presets import EXPECTED

LEVELS = [
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
]
GELU = "m = MatMul(x, w) a = Add(m, b) h = Gelu(a) n = MatMul(h, v) y = Add(c, n)"
TANH = GELU.replace("Gelu(a)", 'Gelu <approximate: string = "tanh"> (a)')
GATED = "p = MatMul(x, w) s = Sigmoid(p) h = Mul(p, s) q = MatMul(x, g) k = Mul(h, q) y = MatMul(k, v)"


def constants() -> str:
    """Write the weights as initializers in text."""
    draw = np.random.default_rng(5)

    def one(name: str, sizes: tuple[int, ...]) -> str:
        numbers = ", ".join(f"{number:.6f}" for number in draw.standard_normal(sizes).reshape(-1))
        return f"float[{','.join(map(str, sizes))}] {name} = {{{numbers}}}"

    matrices = {"w": (8, 16), "b": (16,), "v": (16, 8), "c": (8,), "g": (8, 16), "d": (16,), "u": (8, 32)}
    return ", ".join(one(name, sizes) for name, sizes in matrices.items())


def feed_forward(body: str = GELU, **options: Any) -> ir.Model:
    return model(body, options.pop("constants", constants()), **options)


def at_level(of: ir.Model, level: Any, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        ir.to_proto(of).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(each) for each in session.run(None, dict(inputs))]


def assert_bit_equal(one: ir.Model, other: ir.Model, inputs: Mapping[str, Array] | None = None) -> None:
    inputs = inputs or feeds(one)
    for level in LEVELS:
        for expected, actual in zip(at_level(one, level, inputs), at_level(other, level, inputs), strict=True):
            assert actual.dtype == expected.dtype
            assert np.array_equal(actual.view(np.uint8), expected.view(np.uint8)), level


def assert_outlines(of: ir.Model, target: str = "ort", count: int = 1) -> ir.Model:
    """Fuse with and without outlining, and compare: graph, checker, ONNX Runtime, reference evaluator."""
    apart, _ = fuse(of, target, forms=whole(target))
    one, report = fuse(of, target, outline=True)
    assert operators(one).count("FeedForward") == count
    assert report.count("feed_forward") == count
    assert_interface_kept(of, one)
    onnx.checker.check_model(ir.to_proto(one))
    assert {node.domain for f in one.functions.values() for node in f} <= {""}
    assert_bit_equal(apart, one)
    again, _ = fuse(one, target, forms=whole(target))
    assert operators(again) == operators(apart)
    assert again.functions == {}
    assert operators(outline(one)) == operators(one)
    return one


def nodes(of: ir.Model) -> list[ir.Node]:
    return [node for node in of.graph.all_nodes() if node.domain == DOMAIN]


def attributes(node: ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


def names(node: ir.Node) -> list[str | None]:
    return [None if value is None else value.name for value in node.inputs]


@pytest.mark.slow
@pytest.mark.parametrize("exported", SOME_EXPORTS, indirect=True)
@pytest.mark.parametrize("target", ["portable", "ort-cpu", "ort", "ort-cuda"])
def test_presets(exported: Exported, target: str) -> None:
    form = EXPECTED[target][exported.preset].split()
    one = assert_outlines(exported.model, target, int("MatMul" in form))
    if "MatMul" in form:
        assert len(one.graph) <= 3
    (expected,) = run(fuse(exported.model, target)[0], feeds(exported.model))
    if all(node.domain in ("", DOMAIN) for node in one.graph):
        (actual,) = np.asarray(ReferenceEvaluator(ir.to_proto(one)).run(None, feeds(exported.model)))
        assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def test_inputs_and_attributes_of_a_plain_one() -> None:
    (node,) = nodes(assert_outlines(feed_forward()))
    assert (node.domain, node.op_type, node.overload) == ("ai.ffn_export", "FeedForward", "")
    assert names(node) == ["x", "w", "b", "v", "c"]
    assert attributes(node) == {"activation": "gelu"}
    assert node.outputs[0].name == "y"


def test_inputs_and_attributes_of_a_gated_one() -> None:
    (node,) = nodes(assert_outlines(feed_forward(GATED), "ort-cpu"))
    assert names(node) == ["x", "w", None, "v", None, "g"]
    assert attributes(node) == {"activation": "silu", "alpha": 1.0}


def test_gate_on_the_other_side() -> None:
    (node,) = nodes(assert_outlines(feed_forward(GATED.replace("Mul(h, q)", "Mul(q, h)"))))
    assert names(node) == ["x", "w", None, "v", None, "g"]


def test_gated_with_biases() -> None:
    body = GATED.replace("p = MatMul(x, w)", "o = MatMul(x, w) p = Add(o, b)").replace(
        "q = MatMul(x, g)", "r = MatMul(x, g) q = Add(r, d)"
    )
    (node,) = nodes(assert_outlines(feed_forward(body), "ort-cpu"))
    assert names(node) == ["x", "w", "b", "v", None, "g", "d"]


@pytest.mark.parametrize(("first", "packed"), [("l", 1), ("r", 2)])
@pytest.mark.parametrize("by", ["Split", "Slice"])
def test_packed(first: str, packed: int, by: str) -> None:
    split = "l, r = Split <axis: int = -1, num_outputs: int = 2> (m)"
    if by == "Slice":
        split = "l = Slice(m, zero, half, last) r = Slice(m, half, all, last)"
    other = {"l": "r", "r": "l"}[first]
    body = f"m = MatMul(x, u) {split} h = Gelu({first}) k = Mul(h, {other}) y = MatMul(k, v)"
    bounds = "int64[1] zero = {0}, int64[1] half = {16}, int64[1] all = {32}, int64[1] last = {2}"
    of = feed_forward(body, constants=f"{constants()}, {bounds}")
    (node,) = nodes(assert_outlines(of, "ort-cpu"))
    assert names(node) == ["x", "u", None, "v"]
    assert attributes(node) == {"activation": "gelu", "packed": packed}


@pytest.mark.parametrize("body", [GELU, TANH, GELU.replace("Gelu", "Relu")])
def test_matrices(body: str) -> None:
    assert_outlines(feed_forward(body, inputs="float[rows,8] x", outputs="float[rows,8] y"))


def test_gemm_with_turned_weights() -> None:
    body = "a = Gemm <transB: int = 1> (x, v, b) h = Relu(a) y = Gemm <transB: int = 1> (h, w, c)"
    of = feed_forward(body, inputs="float[rows,8] x", outputs="float[rows,8] y")
    (node,) = nodes(assert_outlines(of))
    assert names(node) == ["x", "v", "b", "w", "c"]
    assert attributes(node) == {"activation": "relu", "transposed": 1}


def test_reshapes_to_rows_and_back_go_into_the_body() -> None:
    body = """r = Reshape(x, rows) a = Gemm(r, w, b) h = Relu(a) k = Reshape(h, back) n = MatMul(k, v)
        y = Add(n, c)"""
    shapes = "int64[2] rows = {-1, 8}, int64[3] back = {2, -1, 16}"
    of = feed_forward(body, constants=f"{constants()}, {shapes}", inputs="float[2,seq,8] x", outputs="float[2,seq,8] y")
    (node,) = nodes(assert_outlines(of))
    assert names(node) == ["x", "w", "b", "v", "c"]


def test_activation_without_a_name_is_another_operator() -> None:
    one = outline(feed_forward(GELU.replace("Gelu(a)", "Sin(a)")))
    (node,) = nodes(one)
    assert (node.op_type, attributes(node)) == ("CustomFeedForward", {"activation": "other"})


def test_bias_behind_the_activation_is_none_of_the_first_product() -> None:
    one = outline(feed_forward(GELU.replace("a = Add(m, b) h = Gelu(a)", "a = Gelu(m) h = Add(a, b)")))
    assert [node.op_type for node in nodes(one)] == ["CustomFeedForward"]


def test_layers_of_one_structure_share_a_function() -> None:
    second = GELU.replace("y =", "z =").replace("(x, w)", "(y, w)")
    for name in "mahn":
        second = second.replace(f"{name} =", f"{name}2 =").replace(f"({name}", f"({name}2")
    second = second.replace("Add(c, n)", "Add(c, n2)")
    one = assert_outlines(feed_forward(f"{GELU} {second}", outputs="float[batch,seq,8] z"), count=2)
    assert list(one.functions) == [(DOMAIN, "FeedForward", "")]


def test_structures_have_names_of_their_own() -> None:
    second = "m2 = MatMul(y, w) h2 = Relu(m2) z = MatMul(h2, v)"
    of = feed_forward(f"{GELU} {second}", outputs="float[batch,seq,8] z")
    one, _ = fuse(of, "portable", outline=True)
    assert operators(one) == ["FeedForward", "FeedForward_2"]
    assert_bit_equal(fuse(of, "portable")[0], one)
    (expected,) = run(of, feeds(of))
    (actual,) = np.asarray(ReferenceEvaluator(ir.to_proto(one)).run(None, feeds(of)))
    assert np.abs(actual - expected).max() < 1e-5 * np.abs(expected).max()


def test_inside_a_subgraph() -> None:
    branch = GELU.replace("y =", "t =")
    body = f"""y = If (condition) <then_branch = yes () => (float[batch,seq,8] t) {{ {branch} }},
        else_branch = no () => (float[batch,seq,8] e) {{ e = Neg(x) }}>"""
    of = feed_forward(body, inputs="float[batch,seq,8] x, bool condition")
    one = outline(of)
    assert [node.op_type for node in nodes(one)] == ["FeedForward"]
    assert_bit_equal(of, one)


@pytest.mark.parametrize(
    ("body", "outputs", "reason"),
    [
        (GELU, "float[batch,seq,8] y, float[batch,seq,16] h", "intermediate 'h' is a graph output"),
        (f"{GELU} z = Neg(m)", "float[batch,seq,8] y, float[batch,seq,16] z", "intermediate 'm' is also read by Neg"),
    ],
)
def test_left_alone(body: str, outputs: str, reason: str) -> None:
    of = feed_forward(body, outputs=outputs)
    one, report = fuse(of, "portable", outline=True)
    assert operators(one) == operators(of)
    assert one.functions == {}
    assert outlined(of).left == {next(iter(outlined(of).left)): reason}
    assert reason in str(report.sites[0].reason)


def test_a_result_that_is_read_in_between_ends_the_node() -> None:
    of = feed_forward(f"{GELU} z = Neg(n)", outputs="float[batch,seq,8] y, float[batch,seq,8] z")
    one = outline(of)
    assert operators(one) == ["FeedForward", "Add", "Neg"]
    assert names(nodes(one)[0]) == ["x", "w", "b", "v"]
    assert_bit_equal(of, one)


def test_two_first_products_of_which_none_is_activated() -> None:
    body = "p = MatMul(x, w) q = MatMul(x, g) k = Mul(p, q) y = MatMul(k, v)"
    assert [node.op_type for node in nodes(outline(feed_forward(body)))] == ["CustomFeedForward"]


def test_without_types_the_result_still_knows_its_activation() -> None:
    (node,) = nodes(outlined(feed_forward()).model)
    assert attributes(node) == {"activation": "gelu"}


def test_model_without_a_feed_forward_is_as_it_was() -> None:
    of = model("y = Neg(x)")
    assert ir.to_proto(outline(of)) == ir.to_proto(of)


def test_the_model_given_is_left_unchanged() -> None:
    of = feed_forward()
    before = ir.to_proto(of)
    outline(of)
    assert ir.to_proto(of) == before


def test_half_precision() -> None:
    of = feed_forward(
        GELU.replace("a = Add(m, b) h = Gelu(a)", "h = com.microsoft.BiasGelu(m, b)"), domains=["com.microsoft"]
    )
    for value in (*of.graph.inputs, *of.graph.outputs, *of.graph.initializers.values()):
        value.dtype = ir.DataType.FLOAT16
        if value.const_value is not None:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float16), name=value.name)
    assert_bit_equal(of, outline(of))


def test_written_out_again() -> None:
    one = outline(feed_forward())
    assert operators(written_out(one)) == operators(feed_forward())
