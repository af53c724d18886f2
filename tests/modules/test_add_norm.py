from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ffn_export.errors import UsageError
from ffn_export.modules import NORMS, AddNorm, numpy_twin, randomise_norms

TwinError = Callable[..., float]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [4, [3, 4]])
def test_agrees_with_the_twin(norm: str, shape: int | list[int], twin_error: TwinError) -> None:
    torch.manual_seed(0)
    module = randomise_norms(AddNorm(shape, norm=norm))
    for leading in [(), (0,), (2,), (2, 5)]:
        assert twin_error(module, (*leading, 3, 4), (*leading, 3, 4)) <= 1e-12


def test_only_the_sublayer_is_dropped() -> None:
    module = AddNorm(4, dropout=1.0).train()
    x, sublayer = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    torch.testing.assert_close(module(x, sublayer), module.norm(x))


def test_shapes_that_would_broadcast_are_refused() -> None:
    module = AddNorm([3, 4])
    with pytest.raises(UsageError, match=r"two inputs of one shape, got \[2, 3, 4\] and \[3, 4\]"):
        module(torch.ones(2, 3, 4), torch.ones(3, 4))
    with pytest.raises(ValueError, match="two arrays of one shape"):
        numpy_twin.add_norm(np.ones((2, 4)), np.ones(4), numpy_twin.relu)


def test_bad_arguments() -> None:
    with pytest.raises(UsageError, match="must name at least one trailing dimension"):
        AddNorm([])
    with pytest.raises(UsageError, match="unknown norm"):
        AddNorm(4, norm="batch_norm")
    with pytest.raises(UsageError, match="dropout must be"):
        AddNorm(4, dropout=2.0)
