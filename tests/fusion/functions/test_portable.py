"""Bodies for the operators of ``com.microsoft``: proven with ONNX's reference evaluator, ignored by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.exporter.export import export_source
from ffn_export.exporter.precision import convert
from ffn_export.exporter.source import resolve
from ffn_export.fusion.functions import portable
from ffn_export.fusion.pipeline import fuse
from ffn_export.runtimes import half_precision
from tests.families import some_of_them
from tests.fusion.conftest import SOME_EXPORTS, Exported
from tests.fusion.graphs import Array, assert_interface_kept, feeds, model, operators, run

ROW = "float[8] b = {1, 2, 3, -4, -3, -2, -1, 0.5}"
GAMMA = f"float[8] g = {{1, -1, 2, 0.5, 1, 1, 3, 1}}, {ROW}"
MATRIX = f"float[8,8] w = {{{', '.join(str((i * 7 % 13 - 6) / 8) for i in range(64))}}}"
VENDOR = ["com.microsoft"]


def evaluated(of: ir.Model) -> list[Array]:
    """Run with nothing but what ONNX has."""
    return [np.asarray(each) for each in ReferenceEvaluator(ir.to_proto(of)).run(None, feeds(of))]


def assert_portable(of: ir.Model) -> ir.Model:
    """Add bodies; ONNX Runtime's results are the same bits, the evaluator's the same numbers."""
    added = portable.add(of)
    onnx.checker.check_model(ir.to_proto(added))
    assert_interface_kept(of, added)
    kernels = run(of, feeds(of))
    for before, after, body in zip(kernels, run(added, feeds(of)), evaluated(added), strict=True):
        assert np.array_equal(before, after)
        assert body.dtype == before.dtype
        assert np.abs(body - before).max() <= 2e-6 * np.abs(before).max()
    return added


@pytest.mark.slow
@pytest.mark.parametrize("exported", SOME_EXPORTS, indirect=True)
@pytest.mark.parametrize("target", ["ort", "ort-cpu"])
def test_presets(exported: Exported, target: str) -> None:
    fused, _ = fuse(exported.model, target)
    added, _ = fuse(exported.model, target, portable_functions=True)
    assert operators(added) == operators(fused)
    vendor = {node.op_type for node in fused.graph if node.domain == "com.microsoft"}
    assert {name for _, name, _ in added.functions} == vendor
    onnx.checker.check_model(ir.to_proto(added))
    for expected, actual, kernel in zip(
        run(fused, feeds(fused)), evaluated(added), run(added, feeds(fused)), strict=True
    ):
        assert np.array_equal(expected, kernel)
        assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("preset", some_of_them(["bert-ffn", "d2l-ffn-addnorm", "gpt2-ffn", "llama-ffn"]))
def test_presets_in_half_precision(preset: str, dtype: str) -> None:
    wide = export_source(resolve(preset), 20)
    half = export_source(convert(resolve(preset), dtype), 20)
    added, _ = fuse(half, "ort", portable_functions=True)
    given = {name: array.astype(half.graph.inputs[0].dtype.numpy()) for name, array in feeds(wide).items()}  # type: ignore[union-attr]
    (truth,) = run(wide, feeds(wide))
    evaluator = ReferenceEvaluator(ir.to_proto(added), new_ops=list(half_precision.operators(half.opset_imports[""])))
    actual = np.asarray(next(iter(evaluator.run(None, given))))
    assert actual.dtype == half.graph.outputs[0].dtype.numpy()  # type: ignore[union-attr]
    bound = {"float16": 5e-3, "bfloat16": 4e-2}[dtype]
    assert np.abs(actual.astype(np.float64) - truth).max() <= bound * np.abs(truth).max()


def test_a_wrong_body_changes_the_evaluator_and_not_onnxruntime() -> None:
    of = model("y = com.microsoft.BiasGelu(x, b)", ROW, domains=VENDOR)
    wrong = '<domain: "com.microsoft", opset_import: ["" : 24]> BiasGelu (x, bias) => (y) { y = Neg(x) }'
    other = model("y = com.microsoft.BiasGelu(x, b)", ROW, domains=VENDOR, functions=wrong)
    assert np.array_equal(run(of, feeds(of)), run(other, feeds(of)))
    assert np.array_equal(evaluated(other)[0], -feeds(of)["x"])


def test_one_body_with_and_without_a_bias() -> None:
    of = model("t = com.microsoft.FastGelu(x) y = com.microsoft.FastGelu(t, b)", ROW, domains=VENDOR)
    added = assert_portable(of)
    assert operators(added) == ["FastGelu", "FastGelu"]
    assert list(added.graph.initializers) == ["b", "ffn_export_zeros_float_8"]


@pytest.mark.parametrize("opset", [13, 17, 18, 20, 24])
def test_one_body_for_each_set_of_inputs(opset: int) -> None:
    body = """t, , , s = com.microsoft.SkipLayerNormalization <epsilon: float = 0.1> (x, x, g, , b)
        u = com.microsoft.SkipLayerNormalization(t, s, g, b)
        v = com.microsoft.SkipSimplifiedLayerNormalization <epsilon: float = 0.25> (u, s, g)
        y = com.microsoft.SkipSimplifiedLayerNormalization(v, u, g, b)"""
    inputs, values = "float[2,3,8] x", "float[2,3,8] t, float[2,3,8] u, float[2,3,8] v, float[2,3,8] s"
    of = model(body, GAMMA, inputs=inputs, outputs="float[2,3,8] y", opset=opset, domains=VENDOR)
    for name, value in ((v.name, v) for node in of.graph for v in node.outputs if v.name):
        assert name in f"{values}, y"
        value.dtype, value.shape = ir.DataType.FLOAT, ir.Shape([2, 3, 8])
    added = assert_portable(of)
    assert operators(added) == operators(of)
    assert sorted(name for _, name, _ in added.functions) == sorted(set(operators(of)))


def test_activations_of_one_model() -> None:
    body = """a = com.microsoft.FusedGemm <activation: string = "Relu"> (x, w, b)
        c = com.microsoft.FusedGemm <activation: string = "Relu", transB: int = 1, alpha: float = 0.5> (a, w)
        y = com.microsoft.FusedGemm <activation: string = "LeakyRelu", activation_alpha: float = 0.25> (c, w, b)"""
    of = model(body, f"{ROW}, {MATRIX}", inputs="float[rows,8] x", outputs="float[rows,8] y", domains=VENDOR)
    for node in of.graph:
        node.outputs[0].dtype = ir.DataType.FLOAT
    added = assert_portable(of)
    assert operators(added) == ["FusedGemm", "FusedGemm", "Gemm", "LeakyRelu"]


def test_a_node_that_does_not_fit_is_written_out() -> None:
    of = model(
        "t = com.microsoft.FastGelu(z) y = com.microsoft.FastGelu(x, b) q = Neg(t)",
        ROW,
        inputs="float[batch,seq,8] x, float[n,m] z",
        outputs="float[batch,seq,8] y, float[n,m] q",
        domains=VENDOR,
    )
    added = assert_portable(of)
    assert operators(added) == ["Gelu", "FastGelu", "Neg"]


def test_several_dtypes_have_one_body() -> None:
    of = model(
        """y = com.microsoft.QuickGelu(x) z = com.microsoft.QuickGelu <alpha: float = 1.0> (u)
        p = com.microsoft.BiasGelu(x, b) q = com.microsoft.BiasGelu(u, c)""",
        f"{ROW}, float16[8] c = {{1,2,3,4,5,6,7,8}}",
        inputs="float[2,8] x, float16[2,8] u",
        outputs="float[2,8] y, float16[2,8] z, float[2,8] p, float16[2,8] q",
        domains=VENDOR,
    )
    added = portable.add(of)
    for expected, actual in zip(run(of, feeds(of)), evaluated(added), strict=True):
        assert actual.dtype == expected.dtype
        bound = 2e-6 if actual.dtype == np.float32 else 2e-3
        assert np.abs(actual.astype(np.float64) - expected).max() <= bound * np.abs(expected).max()


def test_a_function_that_is_there_stays() -> None:
    own = '<domain: "com.microsoft", opset_import: ["" : 24]> Gelu (x) => (y) { y = Neg(x) }'
    of = model("y = com.microsoft.Gelu(x)", domains=VENDOR, functions=own)
    assert ir.to_proto(portable.add(of)) == ir.to_proto(of)


def test_fusing_again_gives_the_same() -> None:
    gelu = "m = MatMul(x, w) t = Add(m, b) h = Gelu(t) y = MatMul(h, w)"
    of = model(gelu, f"{ROW}, {MATRIX}")
    fused, _ = fuse(of, "ort", portable_functions=True)
    assert list(fused.functions) == [("com.microsoft", "BiasGelu", "")]
    plain, _ = fuse(fused, "ort")
    assert (operators(plain), plain.functions) == (operators(fused), {})
    again, _ = fuse(fused, "ort", portable_functions=True)
    assert ir.to_proto(again) == ir.to_proto(fused)


def test_operators_without_a_body_are_left_alone() -> None:
    of = model("y = com.microsoft.NhwcMaxPool(x)", domains=VENDOR)
    assert ir.to_proto(portable.add(of)) == ir.to_proto(of)
