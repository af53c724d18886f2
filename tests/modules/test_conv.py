from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from ffn_export.errors import UsageError
from ffn_export.modules import ConvFeedForward, FeedForward

TwinError = Callable[..., float]


@pytest.mark.parametrize("bias", [True, False])
def test_agrees_with_the_twin(bias: bool, twin_error: TwinError) -> None:
    torch.manual_seed(0)
    conv = ConvFeedForward(6, 16, "gelu", bias=bias)
    for shape in [(2, 3, 6), (1, 1, 6), (0, 3, 6)]:
        assert twin_error(conv, shape) <= 1e-12


@pytest.mark.parametrize("bias", [True, False])
def test_is_the_linear_form_once_it_has_its_weights(bias: bool) -> None:
    torch.manual_seed(0)
    ff = FeedForward(6, 16, "gelu", bias=bias).double().eval()
    conv = ConvFeedForward(6, 16, "gelu", bias=bias).double().eval()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    assert not torch.allclose(conv(x), ff(x))
    torch.testing.assert_close(conv.load_feed_forward(ff)(x), ff(x), rtol=0, atol=1e-14)


def test_from_config() -> None:
    conv = ConvFeedForward.from_config(SimpleNamespace(hidden_size=4, intermediate_size=8, hidden_dropout_prob=0.2))
    assert conv.conv_1.weight.shape == (8, 4, 1)
    assert (conv.activation_name, conv.dropout.p) == ("gelu", 0.2)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 2, 3, 4)])
def test_other_ranks_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=f"needs an input of rank 3.*got rank {len(shape)}"):
        ConvFeedForward(4, 8)(torch.zeros(shape))


@pytest.mark.parametrize("ff", [FeedForward(4, 9), FeedForward(4, 8, "gelu"), FeedForward(4, 8, bias=False)])
def test_loading_another_function_is_refused(ff: FeedForward) -> None:
    with pytest.raises(UsageError, match="load_feed_forward needs equal"):
        ConvFeedForward(4, 8).load_feed_forward(ff)
