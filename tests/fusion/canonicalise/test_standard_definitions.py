"""Gelu and both norms as the standard itself spells them out, which is how programs inline them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.inliner import inline_selected_functions

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_interface_kept, assert_same_function, cast, model, operators

LAYER, RMS = "LayerNormalization", "RMSNormalization"
ROW = "{1, 2, 0.5, -1, 3, 1, 1, 2}"
WEIGHTS = f"float[8] g = {ROW}, float[8] b = {ROW}"


def inlined(of: ir.Model, *names: str) -> ir.Model:
    """Replace standard operators by the bodies that the standard gives them."""
    proto = inline_selected_functions(ir.to_proto(of), [("", name) for name in names], inline_schema_functions=True)
    written = ir.from_proto(proto)
    assert not set(names) & set(operators(written))
    return written


def test_over_several_axes_it_stays_a_norm_of_rows() -> None:
    ones = "float[2,4] g = {1, 2, 3, 4, 5, 6, 7, 8}"
    of = inlined(
        model(f"y = {LAYER}<axis = -2>(x, g)", ones, inputs="float[n,2,4] x", outputs="float[n,2,4] y", opset=18), LAYER
    )
    fused, _ = fuse(of, "portable")
    assert operators(fused).count(LAYER) == 1
    assert "ReduceMean" not in operators(fused)
    assert_same_function(of, fused)


DTYPES = [ir.DataType.FLOAT, ir.DataType.FLOAT16]


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float16"])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("opset", [20, 23])
def test_a_gelu_that_was_inlined(approximate: str, opset: int, dtype: ir.DataType) -> None:
    of = cast(model(f'y = Gelu<approximate = "{approximate}">(x)', opset=opset), dtype)
    fused, _ = assert_fuses(inlined(of, "Gelu"), ["Gelu"])
    assert fused.graph[-1].attributes.get_string("approximate", "none") == approximate


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(
    ("norm", "opset"),
    [(f"{LAYER}<axis = -1, epsilon = 0.01>(x, g, b)", 17), (f"{LAYER}(x, g)", 21), (f"{RMS}(x, g)", 23)],
)
def test_a_norm_that_was_inlined(norm: str, opset: int, dtype: ir.DataType) -> None:
    name = norm.partition("(")[0].partition("<")[0]
    of = inlined(cast(model(f"y = {norm}", WEIGHTS, opset=opset), dtype), name)
    fused, _ = fuse(of, "portable")
    assert operators(fused) == [name]
    assert fused.graph[-1].attributes.get_float("epsilon", 1e-5) == pytest.approx(0.01 if "0.01" in norm else 1e-5)
    assert_interface_kept(of, fused)
    if dtype == ir.DataType.FLOAT:
        assert_same_function(of, fused)


@pytest.mark.parametrize("statistics", ["m", "m, i"])
def test_the_mean_and_the_inverse_deviation_are_outputs_of_the_norm(statistics: str) -> None:
    outputs = ["float[batch,seq,8] y", *(f"float[batch,seq,1] {name}" for name in statistics.split(", "))]
    of = inlined(model(f"y, {statistics} = {LAYER}(x, g, b)", WEIGHTS, outputs=", ".join(outputs), opset=18), LAYER)
    fused, _ = fuse(of, "portable")
    assert operators(fused).count(LAYER) == 1
    assert "ReduceMean" not in operators(fused)
    onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    for target in ("portable", "ort", "ort-cpu"):
        assert_same_function(of, fuse(of, target)[0])


def test_a_feed_forward_of_inlined_functions() -> None:
    draw = np.random.default_rng(0)
    of = model(
        f"n = {LAYER}(x, g, b) h = MatMul(n, w1) a = Gelu(h) k = MatMul(a, w2) y = Add(k, x)",
        WEIGHTS,
        inputs="float[batch,seq,8] x, float[8,16] w1, float[16,8] w2",
        opset=20,
    )
    for value in of.graph.inputs[1:]:
        value.const_value = ir.tensor(draw.standard_normal(value.shape.numpy()).astype(np.float32), name=value.name)  # type: ignore[union-attr]
        of.graph.register_initializer(value)
    del of.graph.inputs[1:]
    written = inlined(of, LAYER, "Gelu")
    _, report = assert_fuses(written, [LAYER, "MatMul", "Gelu", "MatMul", "Add"])
    assert [(site.kind, site.status) for site in report.sites] == [("norm", "rewritten"), ("feed_forward", "rewritten")]


def test_a_variance_less_the_square_of_another_mean_is_no_norm() -> None:
    for other in ("z = ReduceMean(g)", "z = ReduceMean(x, first)"):
        body = f"""
            m = ReduceMean(x, last) q = Mul(x, x) s = ReduceMean(q, last) {other} t = Mul(z, z) v = Sub(s, t)
            e = Add(v, epsilon) r = Sqrt(e) d = Sub(x, m) y = Div(d, r)
        """
        constants = f"{WEIGHTS}, int64[1] last = {{-1}}, int64[1] first = {{0}}, float epsilon = {{20}}"
        fused, _ = fuse(model(body, constants), "portable")
        assert LAYER not in operators(fused)
        assert RMS not in operators(fused)


def test_what_is_divided_by_the_deviation_must_be_centred() -> None:
    body = """
        m = ReduceMean(x, last) q = Mul(x, x) s = ReduceMean(q, last) t = Mul(m, m) v = Sub(s, t)
        e = Add(v, epsilon) r = Sqrt(e) y = Div(x, r)
    """
    fused, _ = fuse(model(body, "int64[1] last = {-1}, float epsilon = {1e-5}"), "portable")
    assert operators(fused)[-1] == "Div"
