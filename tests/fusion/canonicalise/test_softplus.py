"""Softplus as torch's exporter writes it, with a line in its place for large numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, model, operators

CONSTANTS = (
    "float twenty = {20}, float ten = {10}, float[1,1,1,1] wide = {20}, float[8] row = {20,20,20,20,20,20,20,20}"
)


def write(comparison: str = "Greater", threshold: str = "twenty", above: str = "x", curve: str = "x") -> str:
    return f"c = {comparison}(x, {threshold}) s = Softplus({curve}) y = Where(c, {above}, s)"


@pytest.mark.parametrize("comparison", ["Greater", "GreaterOrEqual"])
def test_softplus(comparison: str) -> None:
    of = model(write(comparison), CONSTANTS)
    fused, _ = assert_fuses(of, ["Softplus"])
    near = np.nextafter(np.float32(20), np.asarray([0, 100], np.float32)).tolist()
    numbers = [*near, 20, 16.7, 88, 1e5, 21, 30, 0, 19, -88, -20, 40, 87, 1e-3, -1e-3]
    assert_same_function(of, fused, {"x": np.asarray(numbers, np.float32).reshape(1, 2, 8)})


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.BFLOAT16])
def test_half_precisions(dtype: ir.DataType) -> None:
    fused, _ = fuse(cast(model(write(), CONSTANTS), dtype), "portable")
    assert operators(fused) == ["Softplus"]


@pytest.mark.parametrize(
    "pieces",
    [
        write(threshold="ten"),
        write(threshold="wide"),
        write(threshold="row"),
        write("Less"),
        write(above="row"),
        "n = Neg(x) " + write(curve="n"),
        "n = Neg(x) " + write(above="n"),
    ],
)
def test_other_choices(pieces: str) -> None:
    y = "float[a,b,c,d] y" if "wide" in pieces else "float[batch,seq,8] y"
    assert_refuses(model(pieces, CONSTANTS, outputs=y), None)


def test_float64_has_two_branches() -> None:
    assert_refuses(cast(model(write(), CONSTANTS), ir.DataType.DOUBLE), None, runs=False)  # ORT has no such Softplus


class Mish(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.tanh(nn.functional.softplus(x))


def test_mish_that_is_written_with_it() -> None:
    exported = fx.export(Mish(), {"x": "float32[batch,8]"})
    fused, report = fuse(exported, "portable")
    assert operators(fused) == ["Mish"]
    assert report.rules == {"mish": 1, "softplus": 1}
