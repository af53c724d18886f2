"""What counts as a difference of two tensors, beside numbers that hide others."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.fusion_check.difference import difference

COMPUTED = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
LOWEST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("fill", [-1e4, -1e9, LOWEST, -np.inf, np.nan])
def test_other_numbers_are_compared_beside_a_fill(fill: float) -> None:
    expected = np.where(np.arange(8) < 2, np.float32(fill), COMPUTED)
    wrong = np.where(np.arange(8) == 5, COMPUTED + np.float32(0.01), expected)
    assert difference(expected, wrong).relative > 1e-3
    assert difference(expected, np.nextafter(expected, np.float32(0))).relative < 1e-6


def test_a_zero_beside_fills_is_compared() -> None:
    expected = np.triu(np.full((4, 4), LOWEST, np.float32), 1)
    assert difference(expected, np.where(np.eye(4), np.float32(-1), expected)).relative >= 1
    assert difference(expected, expected).relative == 0


@pytest.mark.parametrize("instead", [0.0, -3.0, 100.0, np.inf])
def test_an_infinity_is_not_lost(instead: float) -> None:
    expected = np.where(np.arange(8) < 2, np.float32(-np.inf), 10 * COMPUTED)
    assert difference(expected, np.where(np.isinf(expected), np.float32(instead), expected)).problem is not None


def test_what_overflows_in_the_model_alone_is_no_difference() -> None:
    """As the logarithm of 1 + exp(x), which a fused Softplus does not compute by these steps."""
    x = np.array([-5.0, 3.0, 80.0, 90.0, 1000.0], np.float32)
    with np.errstate(over="ignore"):
        steps = np.log1p(np.exp(x))
    assert np.isinf(steps).sum() == 2
    assert difference(steps, np.logaddexp(x, np.float32(0))).relative < 1e-6


def test_infinities_alone_are_not_lost_either() -> None:
    expected = np.full(4, -np.inf, np.float32)
    assert difference(expected, np.zeros(4, np.float32)).problem is not None
    assert difference(expected, np.full(4, LOWEST, np.float32)).problem is None
    assert difference(np.full(4, np.nan), np.zeros(4)).problem is None
