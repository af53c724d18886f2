"""What looks like a norm and is another function where a row is small: left as it is, and named."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_refuses, model, operators

CONSTANTS = "float epsilon = {0.5}, int64[1] axes = {-1}, float two = {2}, float[8] scale = {1,2,3,4,5,6,7,8}"


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ("r = ReduceL2(x, axes) v = Clip(r, epsilon) d = Div(x, v) y = Mul(d, two)", "a floor below the root"),
        ("r = ReduceL2(x, axes) v = Max(epsilon, r) d = Div(x, v) y = Mul(d, scale)", "a floor below the root"),
        ("r = ReduceL2(x, axes) v = Add(r, epsilon) d = Div(x, v) y = Mul(scale, d)", "added to the root"),
        ("r = ReduceL2(x, axes) t = Mul(r, two) v = Clip(t, epsilon) y = Div(x, v)", "a floor below the root"),
        ("p = Mul(x, x) m = ReduceMean(p, axes) v = Clip(m, epsilon) r = Sqrt(v) y = Div(x, r)", "mean of squares"),
        ("r = ReduceL2(x, axes) v = Clip(r, epsilon) y = Div(x, v)", None),  # a vector of length 1
        ("z = Abs(x) r = ReduceL2(x, axes) v = Clip(r, epsilon) d = Div(z, v) y = Mul(d, two)", None),
        ("r = ReduceL2(x, axes) v = Mul(r, epsilon) d = Div(x, v) y = Mul(d, scale)", None),
        ("r = ReduceMax(x, axes) v = Add(r, epsilon) d = Div(x, v) y = Mul(d, scale)", None),
    ],
)
def test_lengths(pieces: str, reason: str | None) -> None:
    assert_refuses(model(pieces, CONSTANTS), reason)


class AnnotatedTransformerNorm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return 3 * (x - mean) / (std + 1e-6) + 1


class SampleVariance(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.var(-1, keepdim=True, unbiased=True)
        return 3 * (x - x.mean(-1, keepdim=True)) * torch.rsqrt(variance + 1e-6)


class ScaleNorm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return 4 * x / length.clamp(min=1e-5)


class NormalizeAndScale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = nn.functional.normalize(x, dim=-1) * 4
        return y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (AnnotatedTransformerNorm(), "epsilon is added to the root, not under it"),
        (SampleVariance(), "what should be a mean is 1.14286 times the mean"),
        (ScaleNorm(), "epsilon is a floor below the root, not added under it"),
        (NormalizeAndScale(), "epsilon is a floor below the root, not added under it"),
    ],
)
@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_modules_that_people_write(module: nn.Module, reason: str, target: str) -> None:
    exported = fx.export(module, {"x": "float32[batch,seq,8]"})
    fused, report = fuse(exported, target)
    (site,) = report.sites
    assert (site.kind, site.status) == ("norm", "refused")
    assert reason in (site.reason or "")
    assert operators(fused) == operators(exported)
