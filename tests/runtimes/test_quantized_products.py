"""Products in few bits on ONNX's reference evaluator, against ONNX Runtime's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from tests.quantization.test_quantize import FEED_FORWARD, graph

EVERY = [
    QuantizationOptions(int8=True),
    QuantizationOptions(bits=8),
    QuantizationOptions(bits=4, block=16),
]
X = np.random.default_rng(0).standard_normal((2, 5, 40)).astype(np.float32)


def on_both(model: ir.Model, path: Path, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    onnx_file.save(model, path)
    runs = [runtime.load(Artifact(path), 1).run({"x": x}) for runtime in (OnnxEvaluator(), OrtCpu())]
    theirs, ours = (next(iter(each.values())) for each in runs)
    return theirs, ours


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_the_evaluator_computes_as_onnxruntime_does(options: QuantizationOptions, tmp_path: Path) -> None:
    model, report = quantize(graph(FEED_FORWARD), options)
    assert len(report.weights) == 2
    theirs, ours = on_both(model, tmp_path / "m.onnx", X)
    allowed = 1e-5 if options.int8 else 2e-2  # the kernel of weights in few bits rounds its input to integers
    assert np.linalg.norm(theirs - ours) < allowed * np.linalg.norm(ours)
    empty, _ = on_both(model, tmp_path / "m.onnx", X[:0])
    assert empty.shape == (0, 5, 40)


@pytest.mark.parametrize("zeros", ["", "zeros"])
def test_zero_points_and_a_bias(zeros: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    model = graph(f"y = com.microsoft.MatMulNBits<K = 40, N = 48, bits = 4, block_size = 16>(x, w, t, {zeros}, , b)")
    arrays = {
        "w": draw.integers(0, 256, (48, 3, 8), np.uint8),
        "t": draw.standard_normal((48, 3)).astype(np.float32),
        "zeros": draw.integers(0, 256, (48, 2), np.uint8),
    }
    for name, array in arrays.items():
        model.graph.initializers.pop(name, None)
        if name != "zeros" or zeros:
            value = next(v for node in model.graph for v in node.inputs if v is not None and v.name == name)
            value.const_value = ir.tensor(array, name=name)
            value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(array.shape)
            model.graph.register_initializer(value)
    model.graph.outputs[0].shape = None
    theirs, ours = on_both(model, tmp_path / "m.onnx", X)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_they_are_no_oracle(options: QuantizationOptions, tmp_path: Path) -> None:
    onnx_file.save(quantize(graph(FEED_FORWARD), options)[0], tmp_path / "m.onnx")
    with pytest.raises(NotImplementedError, match="another number in float64"):
        GraphOracle(tmp_path / "m.onnx")


class Choosing(torch.nn.Module):
    """Ends in an ArgMax and a mean, whose shape ONNX Runtime gets wrong for an empty batch."""

    def __init__(self, of_ids: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.Linear(64, 50)
        self.table = torch.nn.Embedding(100, 32) if of_ids else None

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x if self.table is None else self.table(x)
        y = self.down(torch.relu(self.up(self.norm(rows))))
        return y.argmax(-1), y.mean(1)


@pytest.mark.slow
@pytest.mark.parametrize("of_ids", [False, True])
def test_empty_outputs_that_onnxruntime_gets_wrong_are_a_warning_in_8_bits_too(of_ids: bool) -> None:
    torch.manual_seed(0)
    module = Choosing(of_ids).eval()
    inputs = {"x": "int64[batch,seq]{0..99}" if of_ids else "float32[batch,seq,32]"}
    draw = np.random.default_rng(0)
    x = draw.integers(0, 100, (40, 9)) if of_ids else draw.standard_normal((40, 9, 32)).astype(np.float32)
    options = fx.QuantizationOptions(int8=True, all_products=True)
    made = fx.quantize(fx.export(module, inputs), options, samples={"x": x}, budget=0.3, runtimes=["ort-cpu"])
    bound = fx.Tolerances(relative_l2=0.3)
    found = fx.verify(made.model, against=module, inputs=inputs, tolerances=bound, samples={"x": x})
    assert found.passed, found.failures
    assert any("empty" in warning for warning in found.warnings)
