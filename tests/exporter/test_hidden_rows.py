"""Rows of attention that see no key are 0, as PyTorch has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ffn_export as fx
from ffn_export.fusion import constants
from tests.exporter.helpers import run

INPUTS = {"x": "float32[batch,seq,16]", "mask": "bool[batch,seq]"}


class Attention(nn.Module):
    """Heads of one linear, under a mask of booleans or of what is made of them."""

    def __init__(self, lowest: float | None) -> None:
        super().__init__()
        self.lowest = lowest

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        heads = x.reshape(*x.shape[:2], 2, 8).transpose(1, 2)
        seen = mask[:, None, None]
        if self.lowest is not None:
            seen = torch.zeros(seen.shape).masked_fill(~seen, self.lowest)
        return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=seen).transpose(1, 2).flatten(2)


@pytest.mark.slow
@pytest.mark.parametrize("lowest", [None, -torch.inf, -1e9])
def test_a_row_without_any_key_is_what_pytorch_has_there(lowest: float | None) -> None:
    module = Attention(lowest)
    x = torch.randn(2, 3, 16, generator=torch.manual_seed(0))
    mask = torch.tensor([[False, False, False], [True, False, True]])
    (result,) = run(fx.export(module, INPUTS), {"x": x.numpy(), "mask": mask.numpy()})
    expected = module(x, mask).numpy()
    np.testing.assert_allclose(result, expected, atol=1e-5)
    assert bool((expected[0] == 0).all()) is (lowest != -1e9)


@pytest.mark.slow
def test_only_the_lowest_number_of_such_a_mask_changes() -> None:
    """A mask that a module makes itself of the lowest number is its own, and hides nothing in a row of it."""
    lowest = torch.finfo(torch.float32).min
    graph = fx.export(Attention(lowest), INPUTS).graph
    numbers = {constants.number(value) for node in graph for value in node.inputs}
    assert lowest in numbers
    assert -np.inf not in numbers


@pytest.mark.slow
def test_layers_of_pytorch_give_nan_there_as_they_do_without_gradients() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            hidden: Tensor = self.layer(x, src_key_padding_mask=~mask)
            return hidden

    inputs = {"x": "float32[batch>=1,seq>=1,16]", "mask": "bool[batch,seq]"}
    module = Layer().eval()
    assert fx.verify(fx.export(module, inputs), against=module, inputs=inputs, runtimes=["ort-cpu"]).passed
