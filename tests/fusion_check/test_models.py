"""Models of every kind: what can be run is, what cannot is fused all the same and the report says why not."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from ffn_export.core import onnx_file
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.fusion_check.limits import Limits
from tests.fusion.graphs import cast, model, operators

SILU = "s = Sigmoid(x) y = Mul(x, s)"


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        (SILU + " z = my.Unknown(y)", "float[2,8] x", "my"),
        (SILU + " z = NoSuchOperator(y)", "float[2,8] x", "NoSuchOperator"),
        (SILU + " z = Identity(t)", "float[2,8] x, string[2] t", "input 't' is of string, which is not drawn"),
        (SILU + " z = Identity(t)", "float[2,8] x, seq(float[2]) t", "input 't' is no tensor"),
        (SILU + " z = Identity(t)", "float[2,8] x, optional(float[2]) t", "input 't' is no tensor"),
        (SILU + " z = Add(y, w)", "float[2,8] x, float[2,7] w", "does not run on drawn inputs: "),
        (SILU + " z = Add(y, w)", "float[a,8] x, float[b,8] w, float[a,6] u, float[a,7] v", None),
    ],
)
def test_models_that_do_not_run(body: str, inputs: str, reason: str | None) -> None:
    of = model(body, inputs=inputs, outputs="float[rows,8] y", domains=["my"])
    fused, report = fuse_checked(of, "portable")
    assert operators(fused)[0] == "Swish"
    if reason is None:  # the sizes of two names are equal, or one of them is 1
        assert report.check.status == "passed"
        return
    assert report.check.status == "not checked"
    assert reason in (report.check.reason or "")
    assert "\n" not in (report.check.reason or "")
    assert "/tmp" not in (report.check.reason or "")


@pytest.mark.parametrize(
    ("body", "constants", "drawn"),
    [
        ("y, m = Dropout(s, ratio, training)", "float ratio = {0.5}, bool training = {1}", "Dropout"),
        ("y, m = Dropout(s, ratio, training)", "float ratio = {0.5}, bool training = {0}", None),
        ("y, m = Dropout(s, ratio)", "float ratio = {0.5}", None),
        ("n = RandomNormalLike(x) y = Add(s, n)", "", "RandomNormalLike"),
        ("b = Bernoulli <seed = 1.0> (h) y = Add(s, b)", "", "Bernoulli"),
    ],
)
def test_a_model_that_draws_is_fused_and_not_compared(body: str, constants: str, drawn: str | None) -> None:
    fused, report = fuse_checked(model(f"h = Sigmoid(x) s = Mul(x, h) {body}", constants), "portable")
    assert operators(fused)[0] == "Swish" or drawn == "Bernoulli"
    if drawn is None:
        assert report.check.status == "passed"
    else:
        assert report.check.status == "not checked"
        assert f"{drawn} " in (report.check.reason or "")
        assert "draws random numbers" in (report.check.reason or "")


def test_input_of_unknown_rank() -> None:
    of = model(SILU)
    of.graph.inputs[0].shape = None
    fused, report = fuse_checked(of, "portable")
    assert report.check.reason == "input 'x' has no known rank"
    assert operators(fused)[-1] == "Mul" or operators(fused) == ["Swish"]


def test_opset_that_onnxruntime_refuses_runs_in_the_evaluator() -> None:
    of = model(SILU, opset=27)
    fused, report = fuse_checked(of, "portable")
    assert operators(fused) == ["Swish"]
    assert (report.check.status, report.check.runtime) == ("passed", "reference")


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu", "ort-cuda"])
def test_bfloat16_runs_in_the_evaluator(target: str) -> None:
    weights = f"float[8,8] w = {{{','.join(['0.25'] * 64)}}}, float[8] g = {{1,1,1,1,1,1,1,1}}"
    body = "h = MatMul(x, w) s = Sigmoid(h) a = Mul(h, s) r = Add(a, x) y = LayerNormalization(r, g)"
    of = cast(model(body, weights), ir.DataType.BFLOAT16)
    _, report = fuse_checked(of, target)
    assert (report.check.status, report.check.runtime) == ("passed", "reference"), report.check.reason
    _, report = fuse_checked(of, target, limits=Limits(evaluator_bytes=10))
    assert report.check.status == "not checked"
    assert "lacks a kernel" in (report.check.reason or "")


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.DOUBLE])
def test_other_precisions(dtype: ir.DataType) -> None:
    _, report = fuse_checked(cast(model(SILU), dtype), "ort")
    assert report.check.status == "passed"


def test_inputs_that_overflow_in_half_precision() -> None:
    of = cast(model("p = Mul(x, k) s = Sigmoid(p) y = Mul(p, s)", "float k = {3000}"), ir.DataType.FLOAT16)
    assert fuse_checked(of, "ort")[1].check.status == "passed"


@pytest.mark.parametrize(
    "body",
    ["y = Mul(x, s) s = Sigmoid(x)", "a = Add(b, x) b = Neg(a) y = Mul(a, x)", "y = Mul(x, x, x)", "y = Mul(x)", ""],
)
def test_odd_graphs(body: str) -> None:
    outputs = "float[2] y" if body else "float[2] x"
    of = model(body, inputs="float[2] x", outputs=outputs)
    for target in ("portable", "ort"):
        fused, report = fuse_checked(of, target)
        assert isinstance(fused, ir.Model)
        assert report.check.status in ("passed", "not checked")


def test_integer_outputs_are_compared_where_there_is_nothing_else() -> None:
    of = model(SILU + " z = ArgMax(y)", outputs="int64[1,seq,8] z")
    assert fuse_checked(of, "portable")[1].check.status == "passed"


def test_nothing_rewritten_is_a_pass() -> None:
    _, report = fuse_checked(model("y = Neg(x)"), "portable")
    assert (report.check.status, report.check.worst) == ("passed", 0.0)


def test_external_weights(tmp_path: Path) -> None:
    of = model(
        "h = MatMul(x, w) s = Sigmoid(h) y = Mul(h, s)",
        f"float[8,64] w = {{{','.join(['0.1'] * 512)}}}",
        outputs="float[batch,seq,64] y",
    )
    ir.save(of, tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    loaded = onnx_file.load(tmp_path / "m.onnx")
    before = loaded.graph.initializers["w"].const_value
    fused, report = fuse_checked(loaded, "portable")
    assert (report.check.status, report.check.reason) == ("passed", None)
    assert fused.graph.initializers["w"].const_value is before
    (tmp_path / "m.data").unlink()
    fused, report = fuse_checked(loaded, "portable")
    assert report.check.status == "not checked"
    assert operators(fused) == ["MatMul", "Swish"]


def test_caller_may_leave_out_what_has_a_default() -> None:
    of = model(
        "s = Sigmoid(x) t = Mul(x, s) y = Mul(t, k)", inputs="float[2,8] x, float k = {1.5}", outputs="float[2,8] y"
    )
    assert fuse_checked(of, "portable")[1].check.status == "passed"
