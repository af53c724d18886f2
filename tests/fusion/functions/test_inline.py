"""Model-local functions that may hold a site are inlined, so that each call is a site of its own."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.functions import inline
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_same_function, model, operators
from tests.fuzz.hostile import RECIPES, doubling_functions

HEAD = '<domain: "my", opset_import: ["" : 24]> '
SILU = HEAD + "F (a) => (b) { s = Sigmoid(a) b = Mul(a, s) }"


def test_each_call_is_a_site_of_its_own() -> None:
    of = model("t = my.F(x) y = my.F(t)", domains=["my"], functions=SILU)
    fused, report = assert_fuses(of, ["Swish", "Swish"])
    assert report.rules == {"swish": 2}
    assert not fused.functions
    assert len(of.functions) == 1  # the model that came is as it was


def test_a_call_beside_another_of_another_shape() -> None:
    of = model(
        "t = my.F(x) u = ReduceSum(t, axes) v = my.F(u) y = Add(t, v)",
        "int64[1] axes = {1}",
        domains=["my"],
        functions=SILU,
    )
    assert_fuses(of, ["Swish", "ReduceSum", "Swish", "Add"])


def test_attributes_of_the_call_and_their_defaults() -> None:
    quick = (
        HEAD
        + """F <k : float = 1.5> (a) => (b) {
        c = Constant<value_float : float = @k>() t = Mul(a, c) s = Sigmoid(t) b = Mul(a, s) }"""
    )
    of = model("t = my.F<k = 2.0>(x) y = my.F(t)", domains=["my"], functions=quick)
    fused, _ = assert_fuses(of, ["Swish", "Swish"])
    assert [node.attributes.get_float("alpha") for node in fused.graph] == [2.0, 1.5]


def test_a_function_that_calls_one() -> None:
    outer = HEAD + "G (a) => (b) { c = Neg(a) b = my.F(c) }"
    outer = outer.replace('["" : 24]', '["" : 24, "my" : 1]')
    of = model("y = my.G(x)", domains=["my"], functions=SILU + outer)
    assert_fuses(of, ["Neg", "Swish"])


@pytest.mark.parametrize("operator", ["Neg", "Tanh", "Relu"])
def test_a_function_that_holds_no_site_stays(operator: str) -> None:
    of = model("y = my.F(x)", domains=["my"], functions=HEAD + f"F (a) => (b) {{ b = {operator}(a) }}")
    assert inline.inlined(of) is of
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["F"]
    assert_same_function(of, fused)


def test_a_body_of_an_operator_that_the_runtime_has_stays() -> None:
    own = SILU.replace('"my"', '"com.microsoft"').replace(" F ", " QuickGelu ")
    of = model("y = com.microsoft.QuickGelu(x)", domains=["com.microsoft"], functions=own)
    assert inline.inlined(of) is of


def test_a_function_that_cannot_be_inlined_stays() -> None:
    of = model("y = my.F(x)", domains=["my"], functions=SILU.replace("24", "18"))
    fused, report = fuse(of, "portable")
    assert operators(fused) == ["F"]
    assert report.rules == {}
    assert_same_function(of, fused)


def test_functions_that_call_each_other() -> None:
    head = HEAD.replace('["" : 24]', '["" : 24, "my" : 1]')
    of = model(
        "y = my.F(x)",
        domains=["my"],
        functions=head + "F (a) => (b) { b = my.G(a) }" + head + "G (a) => (b) { b = my.F(a) }",
    )
    assert isinstance(inline.inlined(of), ir.Model)


TANH_GELU = (
    HEAD
    + """N (a) => (b) { t = Constant<value = float {3}>() p = Pow(a, t) k = Constant<value = float {0.044715}>()
    q = Mul(p, k) u = Add(a, q) c = Constant<value = float {0.79788456}>() v = Mul(u, c) h = Tanh(v)
    one = Constant<value = float {1}>() i = Add(h, one) j = Mul(a, i)
    f = Constant<value = float {0.5}>() b = Mul(j, f) }"""
)


def test_a_function_that_is_an_activation_written_out() -> None:
    of = model("y = my.N(x)", domains=["my"], functions=TANH_GELU)
    assert_fuses(of, ["Gelu"])


def test_one_that_cannot_be_inlined_keeps_no_other_from_it() -> None:
    """Its body is of an opset that the model's cannot be raised to, nor it to the model's."""
    old = """<domain: "my", opset_import: ["" : 9]> O (a) => (b) { s = Sigmoid(a)
    t = Upsample<mode = "nearest", scales = [1.0, 1.0, 1.0]>(a) b = Mul(s, t) }"""
    of = model("t = my.F(x) y = my.O(t)", domains=["my"], functions=SILU + old)
    inlined = inline.inlined(of)
    assert [node.op_type for node in inlined.graph] == ["Sigmoid", "Mul", "O"]


def test_what_a_function_of_another_opset_calls_stays_in_it() -> None:
    """Inlined there, it would be read as of that opset; Gelu is of 20."""
    inner = '<domain: "my", opset_import: ["" : 20]> G (a) => (b) { b = Gelu(a) }'
    outer = (
        '<domain: "my", opset_import: ["" : 13, "my" : 1]> O (a) => (b) { s = Sigmoid(a) g = my.G(a) b = Mul(s, g) }'
    )
    of = model("y = my.O(x)", domains=["my"], functions=inner + outer, opset=20)
    inlined = inline.inlined(of)
    body = inlined.functions["my", "O", ""]
    assert [node.op_type for node in body] == ["Sigmoid", "G", "Mul"]
    assert_same_function(of, fuse(of, "portable")[0])


@pytest.mark.parametrize("depth", [16, 60])
def test_functions_that_come_to_too_many_nodes_stay(depth: int) -> None:
    model = ir.from_proto(doubling_functions(depth, "Sigmoid"))
    assert inline.inlined(model) is model


def test_functions_that_come_to_few_nodes_are_inlined() -> None:
    model = inline.inlined(ir.from_proto(doubling_functions(4, "Sigmoid")))
    assert [node.op_type for node in model.graph] == ["Sigmoid"] * 16


def test_functions_that_call_each_other_stay() -> None:
    model = ir.from_proto(RECIPES["mutually_recursive_functions"]())
    assert inline.inlined(model) is model


def test_a_function_that_reads_what_it_does_not_have_stays() -> None:
    of = ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 20, "own": 1]>
        g (float[n,4] x) => (float[n,4] y) { y = own.f(x) }
        <domain: "own", opset_import: ["": 20]> f (x) => (y) { y = Add(x, missing) }""")
    assert inline.all_inlined(of) is of
