from __future__ import annotations

import torch
from torch import nn

from ffn_export.modules import FeedForward, OffsetRMSNorm, randomise_norms, small_normal_


def test_norms_are_moved_off_one_and_zero() -> None:
    torch.manual_seed(0)
    layer, rms, offset = nn.LayerNorm(4096), nn.RMSNorm(4096), OffsetRMSNorm(4096)
    linear = nn.Linear(4, 4)
    kept = linear.weight.detach().clone()
    randomise_norms(nn.Sequential(layer, rms, offset, linear))
    for scale, mean in [(layer.weight, 1.0), (rms.weight, 1.0), (offset.weight, 0.0), (layer.bias, 0.0)]:
        assert abs(scale.mean().item() - mean) < 0.01
        assert abs(scale.std().item() - 0.1) < 0.01
    assert torch.equal(linear.weight, kept)


def test_norms_without_parameters_are_left_alone() -> None:
    norms = nn.Sequential(
        nn.LayerNorm(4, bias=False),
        nn.LayerNorm(4, elementwise_affine=False),
        nn.RMSNorm(4, elementwise_affine=False),
    )
    randomise_norms(norms)
    assert [name for name, _ in norms.named_parameters()] == ["0.weight"]


def test_small_normal_weights_and_zero_biases() -> None:
    torch.manual_seed(0)
    ff = small_normal_(FeedForward(64, 256))
    for linear in (ff.linear_1, ff.linear_2):
        assert abs(linear.weight.std().item() - 0.01) < 0.0005
        assert (linear.bias == 0).all()


def test_draws_come_from_the_current_seed() -> None:
    def weight(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return randomise_norms(nn.LayerNorm(8)).weight

    assert torch.equal(weight(3), weight(3))
    assert not torch.equal(weight(3), weight(4))
