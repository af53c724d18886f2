from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from ffn_export.errors import UsageError
from ffn_export.modules import NORMS, OffsetRMSNorm, make_norm, numpy_twin, randomise_norms, twin_of

TwinError = Callable[..., float]


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("shape", [4, [4], [3, 4]])
def test_agrees_with_the_twin(kind: str, shape: int | list[int], twin_error: TwinError) -> None:
    torch.manual_seed(0)
    norm = randomise_norms(make_norm(kind, shape))
    for leading in [(), (0,), (2,), (2, 5)]:
        assert twin_error(norm, (*leading, 3, 4)) <= 1e-12


@pytest.mark.parametrize("kind", NORMS)
def test_epsilon_is_explicit_and_reaches_both_sides(kind: str, twin_error: TwinError) -> None:
    assert make_norm(kind, 8).eps == NORMS[kind]
    wide = make_norm(kind, 8, eps=0.5)
    assert wide.eps == 0.5
    assert twin_error(wide, (3, 8)) <= 1e-12
    x = np.random.default_rng(0).standard_normal((3, 8))
    assert np.abs(twin_of(wide)(x) - twin_of(make_norm(kind, 8))(x)).max() > 0.01


def test_layer_norm_of_three_numbers() -> None:
    """The example of the deep-learning-handbook: 1, 2, 3 becomes -1.2247, 0, 1.2247."""
    np.testing.assert_allclose(numpy_twin.layer_norm([1, 2, 3], 3), [-1.2247, 0, 1.2247], atol=5e-5)


def test_offset_scales_by_one_plus_weight() -> None:
    norm = OffsetRMSNorm(4)
    x = torch.tensor([2.0, 2.0, 2.0, 2.0])
    torch.testing.assert_close(norm(x), torch.ones(4))  # the weight starts at zero
    nn.init.constant_(norm.weight, 0.5)
    torch.testing.assert_close(norm(x), torch.full((4,), 1.5))


def test_an_offset_norm_is_not_taken_for_a_plain_one() -> None:
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(twin_of(nn.RMSNorm(3, eps=1e-6))(x), numpy_twin.rms_norm(x, 3))
    np.testing.assert_array_equal(twin_of(OffsetRMSNorm(3))(x), numpy_twin.rms_norm(x, 3))
    offset = randomise_norms(OffsetRMSNorm(3))
    assert np.abs(twin_of(offset)(x)).max() > 0.5


def test_norm_without_parameters_has_a_twin(twin_error: TwinError) -> None:
    assert twin_error(nn.LayerNorm(4, elementwise_affine=False), (2, 4)) <= 1e-12
    assert twin_error(nn.RMSNorm(4, eps=1e-6, elementwise_affine=False), (2, 4)) <= 1e-12


def test_twin_refuses_an_epsilon_that_follows_the_dtype() -> None:
    with pytest.raises(UsageError, match="give eps explicitly"):
        twin_of(nn.RMSNorm(4))


def test_twin_checks_the_trailing_dimensions() -> None:
    with pytest.raises(ValueError, match=r"trailing dimensions must be \(3, 4\), got shape \(2, 4\)"):
        numpy_twin.layer_norm(np.zeros((2, 4)), [3, 4])


def test_bad_arguments() -> None:
    with pytest.raises(UsageError, match="unknown norm 'layernorm': did you mean 'layer_norm'"):
        make_norm("layernorm", 4)
    with pytest.raises(UsageError, match="must name at least one trailing dimension"):
        make_norm("layer_norm", [])
    with pytest.raises(UsageError, match="normalized_shape must be a whole number of at least 1, got 0"):
        OffsetRMSNorm([3, 0])
    for eps in (0.0, -1e-5, float("nan")):
        with pytest.raises(UsageError, match="eps must be a positive number"):
            make_norm("rms_norm", 4, eps=eps)
