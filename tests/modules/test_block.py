from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from ffn_export.errors import UsageError
from ffn_export.modules import (
    NORMS,
    AddNorm,
    AddNormFeedForward,
    FeedForward,
    FeedForwardBlock,
    GatedFeedForward,
    make_norm,
    numpy_twin,
    randomise_norms,
    twin_of,
)
from ffn_export.modules.block import NormPosition

TwinError = Callable[..., float]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("position", ["pre", "post"])
def test_agrees_with_the_twin(norm: str, position: NormPosition, twin_error: TwinError) -> None:
    torch.manual_seed(0)
    block = randomise_norms(FeedForwardBlock(FeedForward(6, 16, "gelu"), make_norm(norm, 6), position))
    for leading in [(), (0,), (3,), (2, 3), (0, 3), (2, 1, 3)]:
        assert twin_error(block, (*leading, 6)) <= 1e-12


def test_without_a_norm_it_is_the_residual_sum() -> None:
    torch.manual_seed(0)
    ff = FeedForward(4, 8).eval()
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(FeedForwardBlock(ff)(x), ff(x) + x)


def test_the_position_of_the_norm_is_another_function() -> None:
    torch.manual_seed(0)
    ff, norm = FeedForward(4, 8).double().eval(), make_norm("layer_norm", 4).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    pre, post = FeedForwardBlock(ff, norm, "pre"), FeedForwardBlock(ff, norm, "post")
    torch.testing.assert_close(pre(x), x + ff(norm(x)))
    torch.testing.assert_close(post(x), norm(x + ff(x)))
    assert (pre(x) - post(x)).abs().max() > 0.1


def test_add_norm_form_is_the_post_norm_block() -> None:
    torch.manual_seed(0)
    ff, add_norm = FeedForward(4, 8).eval(), randomise_norms(AddNorm(4)).eval()
    x = torch.randn(2, 3, 4)
    expected = FeedForwardBlock(ff, add_norm.norm, "post").eval()(x)
    torch.testing.assert_close(AddNormFeedForward(ff, add_norm)(x), expected)


@pytest.mark.parametrize("position", ["pre", "post"])
def test_submodules_are_registered_in_the_order_of_the_data(position: NormPosition) -> None:
    block = FeedForwardBlock(GatedFeedForward(4, 8), make_norm("rms_norm", 4), position)
    kinds = [type(each) for each in block.modules() if isinstance(each, (nn.Linear, nn.RMSNorm))]
    linears = [nn.Linear] * 3
    assert kinds == ([nn.RMSNorm, *linears] if position == "pre" else [*linears, nn.RMSNorm])


def test_the_twin_copies_the_weights() -> None:
    block = FeedForwardBlock(FeedForward(4, 8))
    twin, x = twin_of(block), np.ones((2, 4))
    before = twin(x)
    nn.init.zeros_(block.get_submodule("feed_forward.linear_2").get_parameter("weight"))
    np.testing.assert_array_equal(twin(x), before)
    assert np.abs(twin_of(block)(x) - before).max() > 0


def test_a_module_of_the_user_has_no_twin() -> None:
    class Doubled(FeedForward):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    with pytest.raises(UsageError, match=r"Doubled has no NumPy twin; there is one for: .*FeedForward"):
        twin_of(Doubled(4, 8))


def test_bad_arguments() -> None:
    ff, norm = FeedForward(4, 8), make_norm("layer_norm", 4)
    with pytest.raises(UsageError, match="norm_position must be 'pre', 'post' or 'none', got 'after'"):
        FeedForwardBlock(ff, norm, "after")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="norm_position 'pre' needs a norm"):
        FeedForwardBlock(ff, norm_position="pre")
    with pytest.raises(UsageError, match="the norm would not be used"):
        FeedForwardBlock(ff, norm)
    with pytest.raises(ValueError, match="does not go with"):
        numpy_twin.block(np.ones(4), numpy_twin.relu, norm_position="pre")
