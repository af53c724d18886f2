"""Weights in low precision are traced to parameters."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize
from tests.parity.checks.held_constants import compare_weights


@pytest.mark.slow
def test_weights_in_few_bits_are_compared_block_by_block() -> None:
    module = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    exported = fx.export(module, {"x": "float32[n,64]"})
    for bits in (8, 4):
        model, _ = quantize(exported, QuantizationOptions(bits=bits))
        found = compare_weights(model, module)
        assert {each.parameter: each.differing for each in found} == {
            f"{layer}.{kind}": 0 for layer in (0, 2) for kind in ("weight", "bias")
        }
        scales = next(value for name, value in model.graph.initializers.items() if name.endswith("scales"))
        assert scales.const_value is not None
        wrong = scales.const_value.numpy().copy()
        wrong[3] *= 2  # of one channel
        scales.const_value = ir.Tensor(wrong, name=scales.name)
        assert [each.differing for each in compare_weights(model, module) if each.differing] == [64]


@pytest.mark.parametrize(("smoothed", "in_blocks"), [(False, True), (True, True), (True, False)])
def test_weights_of_integer_products_are_compared_by_channel(
    smoothed: bool, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_blocks:
        monkeypatch.setattr("ffn_export.fusion.opset.HIGHEST_OPSET", 20)
    module = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    exported = fx.fuse(fx.export(module, {"x": "float32[n,64]"}))[0]
    draw = np.random.default_rng(0)
    x = (draw.standard_normal((50, 64)) * np.exp(2 * draw.standard_normal(64))).astype(np.float32)
    model, _ = quantize_by_samples(exported, QuantizationOptions(int8=True), {"x": x} if smoothed else None)
    (x_value,) = model.graph.inputs
    multiplied = [node.inputs[1] for node in model.graph if node.op_type == "Mul" and node.inputs[0] is x_value]
    assert (ir.Shape([64]) in [value.shape for value in multiplied if value is not None]) == smoothed
    assert ("Div" in [node.op_type for node in model.graph]) != in_blocks
    found = compare_weights(model, module)
    assert {each.parameter: each.differing for each in found} == {
        f"{layer}.{kind}": 0 for layer in (0, 2) for kind in ("weight", "bias")
    }
    product = next(node for node in model.graph if node.op_type == "MatMulIntegerToFloat")
    scales = product.inputs[3]
    assert scales is not None
    assert scales.const_value is not None
    wrong = scales.const_value.numpy().copy()
    wrong[3] *= 2
    scales.const_value = ir.Tensor(wrong, name=scales.name)
    assert [each.differing for each in compare_weights(model, module) if each.differing] == [64]


def test_weights_of_a_smoothed_input_with_one_scale_are_compared() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            normed = self.norm(x.float())  # read twice, so the norm cannot divide it
            return torch.add(normed, self.down(torch.relu(self.up(normed))))

    torch.manual_seed(0)
    module = Block().eval()
    nn.init.normal_(module.norm.weight, std=4.0)
    x = np.random.default_rng(0).choice([-1, 1], (50, 64))  # rows of one size behind the norm
    model, _ = quantize_by_samples(fx.export(module, {"x": "int64[n,64]"}), QuantizationOptions(int8=True), {"x": x})
    operators = [node.op_type for node in model.graph]
    assert operators[1:5] == ["LayerNormalization", "Mul", "DynamicQuantizeLinear", "MatMulIntegerToFloat"]
    found = {each.parameter: each.differing for each in compare_weights(model, module)}
    assert found == dict.fromkeys(("norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"), 0)


@pytest.mark.slow
@pytest.mark.parametrize("options", [QuantizationOptions(int8=True), QuantizationOptions(static="openvino")])
def test_factors_between_two_products_are_taken_out_of_both(options: QuantizationOptions) -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(32, 64), nn.Linear(64, 32)
    with torch.no_grad():
        first.weight[3] *= 30
        first.weight[9] *= 15
    module = nn.Sequential(first, nn.ReLU(), second).eval()
    exported = fx.fuse(fx.export(module, {"x": "float32[n,32]"}))[0]
    x = np.random.default_rng(0).standard_normal((2000, 32)).astype(np.float32)
    model, report = quantize_by_samples(exported, options, {"x": x})
    assert report.weights[1].smoothing == "in the product before"
    found = {each.parameter: each.differing for each in compare_weights(model, module)}
    assert {name: found[name] for name in ("0.weight", "2.weight")} == {"0.weight": 0, "2.weight": 0}
    for name, scales in model.graph.initializers.items():
        if name.endswith("scales"):
            assert scales.const_value is not None
            right = scales.const_value
            wrong = right.numpy().copy()
            wrong[20] *= 4  # of one of the two only
            scales.const_value = ir.Tensor(wrong, name=name)
            again = {each.parameter: each.differing for each in compare_weights(model, module)}
            assert again.get("0.weight") != 0 or again.get("2.weight") != 0, name
            scales.const_value = right
