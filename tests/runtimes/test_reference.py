from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.core import onnx_file
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.source import Source
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from tests.runtimes.graphs import write

DTYPES = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
EPSILON = {"float": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
STANDARD = {
    "Gelu": ("y = Gelu(x)", 20),
    "Gelu-tanh": ('y = Gelu <approximate: string = "tanh"> (x)', 20),
    "LayerNormalization": ("y = LayerNormalization(x, scale, scale)", 20),
    "RMSNormalization": ("y = RMSNormalization(x, scale)", 24),
    "Swish": ("y = Swish(x)", 24),
    "MatMul": ("y = MatMul(x, w)", 20),
    "Gemm": ("y = Gemm <transB: int = 1> (x, w, scale)", 20),
    "Softmax": ("y = Softmax(x)", 20),
    "Softmax-0": ("y = Softmax <axis: int = 0> (x)", 20),
    "LogSoftmax": ("y = LogSoftmax(x)", 20),
    "ReduceSum": ("axes = Constant <value_ints = [-1]> () s = ReduceSum(x, axes) y = Div(x, s)", 20),
    "ReduceMean": ("axes = Constant <value_ints = [-1]> () s = ReduceMean(x, axes) y = Sub(x, s)", 20),
    "ReduceMean-13": ("s = ReduceMean <axes = [-1]> (x) y = Sub(x, s)", 13),
    "ReduceL2": ("axes = Constant <value_ints = [-1]> () s = ReduceL2(x, axes) y = Div(x, s)", 20),
    "ReduceSumSquare": ("s = ReduceSumSquare <keepdims = 1> (x) y = Div(x, s)", 20),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", STANDARD)
def test_standard_operators_in_every_dtype(operator: str, dtype: str, tmp_path: Path) -> None:
    body, opset = STANDARD[operator]
    names = [f"{dtype}[N,8] x", *(d for d in (f"{dtype}[8] scale", f"{dtype}[8,8] w") if d.split()[1] in body)]
    rng = np.random.default_rng(0)
    drawn = {"x": rng.standard_normal((5, 8)), "scale": rng.standard_normal(8), "w": rng.standard_normal((8, 8))}
    feeds = {name.split()[1]: drawn[name.split()[1]].astype(DTYPES[dtype]) for name in names}
    ours = OnnxEvaluator().load(write(tmp_path, f"({', '.join(names)}) => ({dtype}[N,8] y)", body, opset), 1).run(feeds)
    assert ours["y"].dtype == DTYPES[dtype]
    wide = write(tmp_path, f"({', '.join(n.replace(dtype, 'float', 1) for n in names)}) => (float[N,8] y)", body, opset)
    kernel = OrtCpu().load(wide, 1).run({name: array.astype(np.float32) for name, array in feeds.items()})
    assert np.abs(ours["y"].astype(np.float64) - kernel["y"]).max() <= 4 * EPSILON[dtype] * np.abs(kernel["y"]).max()


@pytest.mark.parametrize("opset", [9, 11, 12, 13])
@pytest.mark.parametrize(
    "body",
    [
        "y = Softmax(x)",
        "y = Softmax <axis = 0> (x)",
        "y = Softmax <axis = 2> (x)",
        "y = LogSoftmax <axis = 1> (x)",
        "y = Hardmax(x)",
        "y = BatchNormalization <epsilon = 0.1> (x, s, b, b, s)",
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_operators_of_old_opsets_mean_what_they_meant(opset: int, body: str, rows: int, tmp_path: Path) -> None:
    weights = ", float[4] s, float[4] b" if "s, b" in body else ""
    artifact = write(tmp_path, f"(float[N,4,5] x{weights}) => (float[N,4,5] y)", body, opset)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((rows, 4, 5), np.float32)}
    if weights:
        feeds |= {"s": rng.random(4, np.float32) + 0.5, "b": rng.standard_normal(4, np.float32)}
    expected = OrtCpu().load(artifact, 1).run(feeds)["y"]
    assert artifact.model_path is not None
    for found in (OnnxEvaluator().load(artifact, 1).run(feeds)["y"], *GraphOracle(artifact.model_path).run(feeds)):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_a_norm_of_halves_adds_up_in_float32(tmp_path: Path) -> None:
    body = "y = LayerNormalization(x, scale)"
    artifact = write(tmp_path, "(float16[N,64] x, float16[64] scale) => (float16[N,64] y)", body)
    x = np.linspace(1000, 5000, 64).astype(np.float16)[None]  # the squares are beyond float16
    (y,) = OnnxEvaluator().load(artifact, 1).run({"x": x, "scale": np.ones(64, np.float16)}).values()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, (wide - wide.mean()) / wide.std(), 1e-3, 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("y = Softmax(x)", 20),
        ("s = ReduceMean <axes = [-1]> (x) y = Div(x, s)", 13),
        ("axes = Constant <value_ints = [-1]> () s = ReduceSum(x, axes) y = Div(x, s)", 13),
    ],
)
def test_a_long_row_of_halves_is_summed_in_float32(body: str, opset: int, dtype: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, f"({dtype}[N,4096] x) => ({dtype}[N,4096] y)", body, opset)
    (y,) = OnnxEvaluator().load(artifact, 1).run({"x": np.ones((1, 4096), DTYPES[dtype])}).values()
    expected = 1.0 if "Mean" in body else 1 / 4096
    np.testing.assert_array_equal(y.astype(np.float64), np.full((1, 4096), expected))


def test_integers_are_summed_as_integers(tmp_path: Path) -> None:
    body = "axes = Constant <value_ints = [-1]> () y = ReduceSum(x, axes)"
    artifact = write(tmp_path, "(int64[N,2] x) => (int64[N,1] y)", body, 20)
    (y,) = OnnxEvaluator().load(artifact, 1).run({"x": np.asarray([[2**60 + 1, 2]])}).values()
    assert (y.dtype.name, y.tolist()) == ("int64", [[2**60 + 3]])


@pytest.mark.parametrize(("axis", "shape"), [(1, (3, 5)), (-1, (3, 40)), (0, (4, 66)), (1, (2, 66)), (0, (40, 3))])
def test_elements_are_gathered_one_by_one(axis: int, shape: tuple[int, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((3, 66)).astype(np.float32)
    indices = rng.integers(-data.shape[axis], data.shape[axis], shape)
    body = f"y = GatherElements <axis: int = {axis}> (x, i)"
    artifact = write(tmp_path, "(float[R,C] x, int64[M,N] i) => (float[M,N] y)", body, 20)
    ours, kernel = (runtime.load(artifact, 1).run({"x": data, "i": indices}) for runtime in (OnnxEvaluator(), OrtCpu()))
    np.testing.assert_array_equal(ours["y"], kernel["y"])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("sizes", [(1, -1), (-2, 3), (-1, -2), (0, -4)])
def test_padding_of_negative_sizes_removes(mode: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    start, end = sizes
    body = f"""p = Constant <value = int64[2] {{{start},{end}}}> () n = Constant <value = float {{7}}> ()
               a = Constant <value = int64[1] {{-1}}> () y = Pad <mode = "{mode}"> (x, p, n, a)"""
    assert_as_onnxruntime(body, 20, tmp_path)


@pytest.mark.parametrize("sizes", ["0,-8,0,3", "0,1,0,0"])  # all six are removed, and more; none is
def test_padding_by_attributes(sizes: str, tmp_path: Path) -> None:
    assert_as_onnxruntime(f"y = Pad <pads = [{sizes}], value = 7.0> (x)", 10, tmp_path)


def assert_as_onnxruntime(body: str, opset: int, directory: Path) -> None:
    artifact = write(directory, "(float[N,6] x) => (float[N,M] y)", body, opset)
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6)}
    ours, kernel = (runtime.load(artifact, 1).run(feeds)["y"] for runtime in (OnnxEvaluator(), OrtCpu()))
    np.testing.assert_array_equal(ours, kernel, strict=True)


def test_outputs_left_out_are_not_taken_for_inputs_left_out(tmp_path: Path) -> None:
    body = """
        first, , , total = com.microsoft.SkipLayerNormalization(x, x, gamma)
        y = com.microsoft.SkipLayerNormalization(first, total, gamma, , bias)
    """
    artifact = write(tmp_path, "(float[N,8] x, float[8] gamma, float[8] bias) => (float[N,8] y)", body)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((3, 8)), "gamma": rng.standard_normal(8), "bias": rng.standard_normal(8)}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    ours, kernel = (runtime.load(artifact, 1).run(feeds)["y"] for runtime in (OnnxEvaluator(), OrtCpu()))
    assert np.abs(ours - kernel).max() < 1e-5


def test_attention_as_one_node_is_computed_by_its_body(tmp_path: Path) -> None:
    rows = "float[N,S,8]"
    body = "y = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.5>(q, k, v)"
    artifact = write(tmp_path, f"({rows} q, {rows} k, {rows} v) => ({rows} y)", body)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((2, 3, 8)).astype(np.float32) for name in "qkv"}
    ours, kernel = (runtime.load(artifact, 1).run(feeds)["y"] for runtime in (OnnxEvaluator(), OrtCpu()))
    assert np.abs(ours - kernel).max() < 1e-6


def test_weights_beside_the_model_are_read(fused_file: Callable[..., Path], tmp_path: Path) -> None:
    inline, external = fused_file("d2l-ffn"), tmp_path / "external.onnx"
    onnx_file.save(ir.load(inline), external, external_above=0)
    assert (tmp_path / "external.onnx.data").is_file()
    feeds = {"x": np.ones((2, 3, 4), np.float32)}
    ours, theirs = (OnnxEvaluator().load(Artifact(path), 1).run(feeds)["y"] for path in (inline, external))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = com.microsoft.MoE(x, x, x)", "com.microsoft::MoE"),
        ("y = NoSuchOperator(x)", "NoSuchOperator"),
        ('y = com.microsoft.FusedGemm <activation: string = "Selu"> (x, x)', "Selu"),
    ],
)
def test_unknown_operators_are_unavailable(body: str, reason: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[8,8] x) => (float[8,8] y)", body)
    with pytest.raises(RuntimeUnavailableError, match=reason) as caught:
        OnnxEvaluator().load(artifact, 1)
    assert "\n" not in str(caught.value)


def test_there_must_be_a_model(source: Callable[[str], Source]) -> None:
    assert "no ONNX model" in str(OnnxEvaluator().unavailable(Artifact(source=source("d2l-ffn"))))
