"""A norm between Casts becomes the norm in half precision, where no number is lost by that."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion import graphs
from tests.fusion.graphs import assert_fuses, assert_refuses, operators

LAYER, RMS = "LayerNormalization", "RMSNormalization"
ROW = "{1.5,-1,0.25,2,1,0.5,3,-2}"
CONSTANTS = (
    f"float[8] g = {ROW}, float[8] h = {ROW}, float two = {{2}}, int64[1] axes = {{-1}}, float epsilon = {{1e-5}}"
)
HALF = {"inputs": "float16[batch,seq,8] x", "outputs": "float16[batch,seq,8] y"}
PIECES = "c = Cast<to = 1>(x) p = Pow(c, two) m = ReduceMean(p, axes) v = Add(m, epsilon) r = Sqrt(v) n = Div(c, r)"


def model(body: str, constants: str = "", **options: str) -> ir.Model:
    """Parse a model; ``h`` is in float16, which the text form cannot state."""
    of = graphs.model(body, constants, **options)  # type: ignore[arg-type]
    row = of.graph.initializers.get("h")
    if row is not None and row.const_value is not None:
        row.const_value = ir.tensor(row.const_value.numpy().astype(np.float16), name="h")
        row.dtype = ir.DataType.FLOAT16
    return of


@pytest.mark.parametrize("norm", [f"{LAYER}(c, g)", f"{LAYER}(c, g, g)", f"{RMS}<epsilon = 0.25>(c, g)"])
def test_a_norm_between_casts(norm: str) -> None:
    of = model(f"c = Cast<to = 1>(x) n = {norm} y = Cast<to = 10>(n)", CONSTANTS, **HALF)
    fused, report = assert_fuses(of, [norm.split("(")[0].split("<")[0]])
    assert report.rules == {"half-norm": 1}
    expected = {name: attribute.value for name, attribute in of.graph[1].attributes.items()}
    assert {name: attribute.value for name, attribute in fused.graph[0].attributes.items()} == expected


@pytest.mark.parametrize(
    "ending",
    [
        "d = Cast<to = 10>(n) y = Mul(h, d)",  # llama: back to half before the scale
        "s = Mul(n, g) y = Cast<to = 10>(s)",
        "w = Cast<to = 1>(h) s = Mul(n, w) y = Cast<to = 10>(s)",  # the scale is half and cast too
    ],
)
def test_the_scale_before_or_after_the_cast(ending: str) -> None:
    fused, _ = assert_fuses(model(f"{PIECES} {ending}", CONSTANTS, **HALF), [RMS])
    assert all(value.dtype == fused.graph.inputs[0].dtype for value in fused.graph.initializers.values())


def test_bfloat16() -> None:
    shapes = {name: text.replace("float16", "bfloat16") for name, text in HALF.items()}
    # A network in bfloat16; onnxruntime cannot run it on CPU.
    of = model(f"z = Add(x, x) c = Cast<to = 1>(z) n = {RMS}(c, g) y = Cast<to = 16>(n)", CONSTANTS, **shapes)
    assert operators(fuse(of, "portable")[0]) == ["Add", RMS]


def test_a_residual_may_read_the_cast_input() -> None:
    of = model(
        f"c = Cast<to = 1>(x) n = {RMS}(c, g) d = Cast<to = 10>(n) a = Cast<to = 10>(c) y = Add(d, a)",
        CONSTANTS,
        **HALF,
    )
    assert_fuses(of, ["Cast", RMS, "Cast", "Add"])


@pytest.mark.parametrize("scale", ["1.0001", "70000"])
def test_refuses_a_scale_that_half_precision_does_not_hold(scale: str) -> None:
    constants = CONSTANTS.replace(f"float[8] g = {ROW}", f"float[8] g = {{1,1,1,1,1,1,1,{scale}}}")
    of = model(
        f"c = Cast<to = 1>(x) n = {RMS}(c, g) d = Mul(n, zero) y = Cast<to = 10>(n)",
        constants + ", float zero = {0}",
        inputs="float16[2,8] x",
        outputs="float16[2,8] y",
    )
    report = fuse(of, "portable")[1]
    assert [s.reason for s in report.sites if s.status == "refused"] == ["'g' is more precise than float16"]


def test_refuses_a_scale_that_is_an_input() -> None:
    of = model(
        f"c = Cast<to = 1>(x) n = {RMS}(c, g) y = Cast<to = 10>(n)",
        inputs="float16[2,8] x, float[8] g",
        outputs="float16[2,8] y",
    )
    assert_refuses(of, "'g' is more precise than float16")


def test_refuses_a_norm_whose_float32_result_is_read() -> None:
    of = model(
        f"c = Cast<to = 1>(x) n = {RMS}(c, g) y = Cast<to = 10>(n) z = Neg(n)",
        CONSTANTS,
        inputs="float16[2,8] x",
        outputs="float16[2,8] y, float[2,8] z",
    )
    assert_refuses(of, "intermediate 'n' is also read by Neg")


@pytest.mark.parametrize(
    ("body", "y"),
    [
        (f"n = {RMS}(x, h) y = Cast<to = 1>(n)", "float"),  # no Cast before it
        (f"c = Cast<to = 1>(x) n = {RMS}(c, g) y = Cast<to = 11>(n)", "double"),  # another dtype after it
        (f"c = Cast<to = 1>(x) n = {RMS}(c, g) y = Cast<to = 16>(n)", "bfloat16"),
        (f"c = Cast<to = 1>(x) n = {LAYER}<stash_type = 11>(c, g) y = Cast<to = 10>(n)", "float16"),
    ],
)
def test_other_dtypes_stay(body: str, y: str) -> None:
    assert_refuses(model(body, CONSTANTS, inputs="float16[2,8] x", outputs=f"{y}[2,8] y"), None, runs=False)


def test_statistics_that_are_read_stay_in_float32() -> None:
    of = model(
        f"c = Cast<to = 1>(x) n, m = {LAYER}(c, g) y = Cast<to = 10>(n)",
        CONSTANTS,
        inputs="float16[2,8] x",
        outputs="float16[2,8] y, float[2,1] m",
    )
    assert_refuses(of, None)


def test_a_sum_in_float32_between_casts_is_none_of_a_half_norm() -> None:
    """The norm may become one in half precision; the sum before it was rounded never, and stays as it is."""
    body = f"c = Cast<to = 1>(x) d = Cast<to = 1>(r) s = Add(c, d) n = {LAYER}(s, g) y = Cast<to = 10>(n)"
    of = model(body, CONSTANTS, inputs="float16[2,8] x, float16[2,8] r", outputs="float16[2,8] y")
    assert_fuses(of, ["Cast", "Cast", "SkipLayerNormalization", "Cast"], "ort")


@pytest.mark.parametrize("target", ["ort", "ort-cuda"])
def test_a_sum_in_float32_before_a_norm_in_half_stays(target: str) -> None:
    body = f"c = Cast<to = 1>(x) d = Cast<to = 1>(r) s = Add(c, d) t = Cast<to = 10>(s) y = {LAYER}(t, h)"
    of = model(body, CONSTANTS, inputs="float16[2,8] x, float16[2,8] r", outputs="float16[2,8] y")
    fused, _ = fuse(of, target)
    assert operators(fused) == ["Cast", "Cast", "Add", "Cast", LAYER]
