"""What the tests of the modules share: how far a torch module is from its NumPy twin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from ffn_export.modules import twin_of

TwinError = Callable[..., float]


def scaled_error(actual: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Largest absolute error over the largest absolute value of what was expected."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype == np.float64
    assert np.isfinite(actual).all()
    if expected.size == 0:
        return 0.0
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


@pytest.fixture
def twin_error() -> TwinError:
    """Evaluate ``(module, *shapes)``: the module in float64 against its twin on normal inputs."""

    def evaluate(module: nn.Module, *shapes: tuple[int, ...]) -> float:
        module = module.double().eval()
        draw = np.random.default_rng(7)
        inputs = [draw.standard_normal(shape) for shape in shapes]
        with torch.no_grad():
            actual = module(*(torch.from_numpy(each) for each in inputs)).numpy()
        return scaled_error(actual, twin_of(module)(*inputs))

    return evaluate
