"""``fuse`` takes every model that parses, leaves it as it was, and gives back one with the same interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.fusion import inference
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.fusion.views import node_count
from tests.fusion.graphs import (
    assert_fuses,
    assert_interface_kept,
    assert_refuses,
    assert_same_function,
    feeds,
    model,
    operators,
    run,
)

SILU = "s = Sigmoid(x) y = Mul(x, s)"


@pytest.mark.parametrize("target", TARGETS)
def test_leaves_the_model_as_it_was(target: str) -> None:
    branches = """z = If (c) <then_branch = t () => (float[2,8] a) { q = Sigmoid(x) a = Mul(q, x) },
                                else_branch = e () => (float[2,8] b) { b = Neg(x) }>"""
    of = model(SILU + branches, inputs="float[2,8] x, bool c", outputs="float[2,8] y, float[2,8] z", opset=18)
    before = ir.to_proto(of).SerializeToString()
    fused, report = fuse(of, target)
    assert ir.to_proto(of).SerializeToString() == before
    assert sum(report.rules.values()) == 2
    assert_same_function(of, fused)


def test_shares_the_weights() -> None:
    of = model("y = MatMul(x, w)", f"float[8,8] w = {{{','.join(['1'] * 64)}}}")
    fused, _ = fuse(of, "portable")
    assert fused.graph.initializers["w"].const_value is of.graph.initializers["w"].const_value


def test_fusing_twice_changes_nothing_more() -> None:
    once, _ = fuse(model(SILU, opset=20), "ort-cpu")
    twice, report = fuse(once, "ort-cpu")
    assert ir.to_proto(twice).SerializeToString() == ir.to_proto(once).SerializeToString()
    assert report.rules == {}


def test_the_same_model_gives_the_same_bytes() -> None:
    one, other = (ir.to_proto(fuse(model(SILU, opset=20), "portable")[0]).SerializeToString() for _ in range(2))
    assert one == other


def test_portable_after_ort_cpu_keeps_the_vendors_operator() -> None:
    fused, _ = fuse(model(SILU), "ort-cpu")
    again, _ = fuse(fused, "portable")
    assert operators(again) == ["QuickGelu"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "x", ["float[?,?,8] x", "float[batch,seq,8] x", "float[2,3,8] x", "float[batch,8] x", "float x"]
)
@pytest.mark.parametrize("inner", ["", "n = Neg(u)"])
def test_names_of_inputs_outputs_and_axes(target: str, x: str, inner: str) -> None:
    y = x.replace(" x", " y").replace("batch", "other")
    of = model(f"u = Abs(x) {inner} s = Sigmoid(u) y = Mul(u, s)", inputs=x, outputs=y)
    fused, _ = fuse(of, target)
    assert len(fused.graph) == 2
    assert_interface_kept(of, fused)


def test_identity_that_inference_fails_on() -> None:
    # It has an attribute of no type: onnxruntime takes it, inference takes nothing of the graph that it is in.
    of = model("i = Identity(x) s = Sigmoid(i) a = Mul(i, s) y = Neg(a)")
    of.graph[0].attributes.add(ir.Attr("nothing", ir.AttributeType.UNDEFINED, None))
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["Swish", "Neg"]


def test_shapes_are_proven_once_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    proven = []
    once = inference.prove_shapes

    def noted(of: ir.Model, stated: inference.Stated | None = None) -> inference.Stated:
        proven.append(of)
        return once(of, stated)

    monkeypatch.setattr(inference, "prove_shapes", noted)
    fuse(model("u = my.Op(x) y = Neg(u)", domains=["my"]), "portable")  # what nobody knows stays unknown
    assert len(proven) == 2


def test_unused_inputs_and_overridable_initializers_stay() -> None:
    inputs = "float[2,8] x, float[2,8] unused, float default = {1.5}, float idle = {2.5}"
    of = model("s = Sigmoid(x) t = Mul(x, s) y = Mul(t, default)", inputs=inputs, outputs="float[2,8] y")
    fused, _ = assert_fuses(of, ["Swish", "Mul"])
    assert [value.name for value in fused.graph.inputs] == ["x", "unused", "default", "idle"]
    assert set(fused.graph.initializers) == {"default", "idle"}
    other = feeds(of) | {"default": np.array(3, np.float32)}
    np.testing.assert_allclose(run(fused, other)[0], run(of, other)[0], rtol=1e-6)


def test_initializer_that_is_an_output_stays() -> None:
    of = model(SILU, "float c = {2.5}, float gone = {1}", outputs="float[batch,seq,8] y, float c")
    fused, _ = assert_fuses(of, ["Swish"])
    assert set(fused.graph.initializers) == {"c"}


def test_input_that_is_an_output() -> None:
    fused, _ = fuse(model("", outputs="float[batch,seq,8] x"), "ort-cpu")
    assert [value.name for value in fused.graph.outputs] == ["x"]


def test_nodes_without_outputs_stay() -> None:
    of = model(SILU, domains=["my"])
    of.graph.append(ir.Node("my", "Print", [of.graph.inputs[0]], num_outputs=0))
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["Swish", "Print"]


def test_dead_nodes_go_with_what_only_they_read() -> None:
    of = model(SILU + " d = Mul(x, k) e = Neg(d)", "float k = {2}")
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["Swish"]
    assert not fused.graph.initializers


def test_dead_nodes_inside_bodies() -> None:
    branches = """y = If (c) <then_branch = t () => (float[2,8] a) { d = Mul(x, k) e = Neg(d) a = Abs(x) },
                                else_branch = e () => (float[2,8] b) { b = Neg(x) }>"""
    of = model("u = Exp(x)" + branches, "float k = {2}", inputs="float[2,8] x, bool c", outputs="float[2,8] y")
    fused, _ = fuse(of, "portable")
    assert [node.op_type for node in fused.graph.all_nodes()] == ["If", "Abs", "Neg"]
    assert not fused.graph.initializers


def test_metadata_of_model_and_graph() -> None:
    of = model(SILU)
    of.metadata_props["author"], of.producer_name, of.producer_version, of.domain = "me", "torch", "2", "org"
    of.model_version, of.graph.metadata_props["k"] = 7, "v"
    fused, _ = assert_fuses(of, ["Swish"])
    assert (fused.producer_version, fused.domain, fused.model_version) == ("2", "org", 7)


@pytest.mark.parametrize("target", TARGETS)
def test_model_without_nodes(target: str) -> None:
    of = model("", outputs="float[batch,seq,8] x", opset=20)
    fused, report = fuse(of, target)
    assert (report.sites, report.nodes) == ((), {"before": 0, "after": 0})
    assert fused.opset_imports == {"": 20}


@pytest.mark.parametrize("target", TARGETS)
def test_model_of_custom_domains_only(target: str) -> None:
    of = model("t = my.Sigmoid(x) y = my.Mul(x, t)", domains=["my"])
    del of.opset_imports[""]
    fused, report = fuse(of, target)
    assert operators(fused) == ["Sigmoid", "Mul"]
    assert fused.opset_imports == {"my": 1}
    assert report.opset == {"before": 0, "after": 0}


def test_default_domain_by_its_other_name() -> None:
    proto = ir.to_proto(model(SILU, opset=20))
    for of in (proto, *proto.opset_import, *proto.graph.node):
        if hasattr(of, "domain") and of is not proto:
            of.domain = "ai.onnx"
    fused, report = fuse(ir.from_proto(proto), "portable")
    assert operators(fused) == ["Swish"]
    assert fused.opset_imports == {"": 24}
    assert report.opset == {"before": 20, "after": 24}
    assert_same_function(model(SILU, opset=20), fused)


@pytest.mark.parametrize("opset", [27, 28, 99])
def test_opsets_that_onnxruntime_does_not_run(opset: int) -> None:
    of = model("u = Abs(x) s = Sigmoid(u) y = Mul(u, s)", opset=opset)
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["Abs", "Swish"]
    assert fused.opset_imports == {"": opset}
    if opset <= onnx.defs.onnx_opset_version():
        assert_same_function(of, fused)


def test_opset_is_not_raised_for_what_no_rule_wrote() -> None:
    """onnxruntime writes LayerNormalization into graphs of any opset; here Softmax would change with 13."""
    of = model(
        "n = LayerNormalization(x, w, w) y = Softmax(n)",
        "float[8] w = {1,1,1,1,1,1,1,1}",
        inputs="float[2,3,8] x",
        outputs="float[2,3,8] y",
        opset=11,
    )
    for target in TARGETS:
        fused, _ = fuse(of, target)
        assert fused.opset_imports == {"": 11}
        assert_same_function(of, fused)


FUNCTION = '<domain: "my", opset_import: ["" : 18, "com.microsoft" : 1]> F (a) => (b) { '


def test_function_is_kept_and_raised_with_the_model() -> None:
    body = FUNCTION + "c = com.microsoft.QuickGelu(a) t = Abs(c) b = Mul(c, t) }"
    of = model(
        "f = my.F(x) s = Sigmoid(x) t = Mul(x, s) y = Add(f, t)",
        opset=18,
        domains=["my", "com.microsoft"],
        functions=body,
    )
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["F", "Swish", "Add"]
    (function,) = fused.functions.values()
    assert [node.op_type for node in function] == ["QuickGelu", "Abs", "Mul"]
    assert function.opset_imports == {"": 24, "com.microsoft": 1}
    assert fused.opset_imports == {"": 24, "my": 1, "com.microsoft": 1}
    assert_same_function(of, fused)
    onnx.checker.check_model(ir.to_proto(fused))


def test_function_that_holds_the_model_where_it_is() -> None:
    body = FUNCTION.replace("18", "12") + "b = Softmax(a) }"
    of = model("f = my.F(x) s = Sigmoid(f) y = Mul(f, s)", opset=18, domains=["my"], functions=body)
    of.graph[0].outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    assert_refuses(of, "Swish needs opset 24; raising this graph above 18 would change one of its operators")


def test_function_with_an_attribute_reference() -> None:
    body = """<domain: "my", opset_import: ["" : 24]> F <k> (a) => (b) {
        c = Constant<value_float : float = @k>() b = Mul(a, c)
    }"""
    of = model("f = my.F<k = 2.0>(x) s = Sigmoid(f) y = Mul(s, f)", domains=["my"], functions=body)
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["F", "Swish"]
    assert_same_function(of, fused)


def test_nodes_in_another_order_than_that_of_the_data() -> None:
    of = model("y = Mul(x, s) s = Sigmoid(x)")
    fused, _ = assert_fuses(of, ["Swish"])
    assert [node.op_type for node in of.graph] == ["Mul", "Sigmoid"]  # this one is still as it was
    assert fused is not of


@pytest.mark.parametrize(
    "body",
    [
        "a = Add(b, x) b = Neg(a) y = Mul(a, x)",  # in a circle
        """y = If (c) <then_branch = t () => (float[2] s) { }, else_branch = e () => (float[2] b) { b = Neg(x) }>
           s = Sigmoid(x)""",  # an output that nothing produces
    ],
)
def test_what_nothing_can_run_is_given_back_as_it_came(body: str) -> None:
    of = model(body, inputs="float[2] x, bool c", outputs="float[2] y")
    fused, report = fuse(of, "ort-cpu")
    assert operators(fused) == operators(of)
    assert report.sites == ()
    assert report.nodes["before"] == report.nodes["after"] == node_count(of)


@pytest.mark.parametrize(
    "body",
    [
        "y = Mul(x, x, x)",
        "s = Sigmoid() y = Mul(s, s)",
        "y = Mul(x)",
        "s = Sigmoid(, x) y = Mul(x, s)",
        "p = Pow(x) m = ReduceMean(p) y = Mul(m, x)",
        "y = Transpose(x)",
        "y = MatMul(x, x, x)",
        "y = NoSuchOperator(x)",
        "y = Gelu<approximate = 3>(x)",
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_malformed_nodes_are_no_reason_to_raise(body: str, target: str) -> None:
    fused, _ = fuse(model(body), target)
    assert len(fused.graph) == body.count("=") - body.count("approximate")


def test_optional_inputs_and_outputs_that_are_left_out() -> None:
    of = model(
        "c = Clip(x, , top) a, , v = LayerNormalization(c, w) s = Sigmoid(a) y = Mul(a, s)",
        "float top = {2}, float[8] w = {1,1,1,1,1,1,1,1}",
    )
    assert_fuses(of, ["Clip", "LayerNormalization", "Swish"])


def test_external_weights_are_not_read(tmp_path: Path) -> None:
    of = model("h = MatMul(x, w) s = Sigmoid(h) y = Mul(h, s)", f"float[8,8] w = {{{','.join(['1'] * 64)}}}")
    ir.save(of, tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    loaded = ir.load(tmp_path / "m.onnx")
    (tmp_path / "m.data").unlink()
    fused, _ = fuse(loaded, "portable")
    assert operators(fused) == ["MatMul", "Swish"]


def test_counts_bodies_and_no_constants() -> None:
    branches = """k = Constant<value_float = 1.0>()
                  y = If (c) <then_branch = t () => (float[2] a) { a = Mul(x, k) },
                              else_branch = e () => (float[2] b) { b = Neg(x) }>"""
    assert node_count(model(branches, inputs="float[2] x, bool c", outputs="float[2] y")) == 3
