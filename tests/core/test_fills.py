"""Constants far beyond what is computed beside them."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.core.fills import fills, least_fill, scales
from ffn_export.core.types import Array
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.judging.verdict import output_failure

COMPUTED = np.random.default_rng(0).standard_normal((4, 8))


def filled(*values: float) -> Array:
    array = COMPUTED.copy()
    for column, value in enumerate(values):
        array[:, column] = value
    return array


@pytest.mark.parametrize(
    "values", [(-1e9,), (1e4, -1e9), (float(np.finfo(np.float32).min), -np.inf), (-1e3, -1e4, -1e5, 1e6)]
)
def test_fills_are_found(values: tuple[float, ...]) -> None:
    found = fills(filled(*values))
    assert found is not None
    np.testing.assert_array_equal(found[0], [index < np.isfinite(values).sum() for index in range(8)])


@pytest.mark.parametrize(
    "truth",
    [
        COMPUTED,
        np.clip(COMPUTED, -1, 1),
        np.zeros((4, 8)),
        np.full((4, 8), -1e9),
        np.full((4, 8), [-1e9, -np.inf] * 4),
        np.tile([0.0, 6.0], (4, 4)),
        filled(0.0),
        filled(10.0),
        filled(64 * float(np.abs(COMPUTED[:, 1:]).max())),
        np.empty((0, 8)),
        filled(-np.inf),
    ],
)
def test_what_is_none(truth: Array) -> None:
    """Of the size of the rest, all there is, or computed: a number that stands there once."""
    assert fills(truth) is None


@pytest.mark.parametrize("computed", [np.clip(COMPUTED, -1, 1), COMPUTED / 1e12], ids=["clipped", "tiny"])
def test_fills_beside_other_numbers(computed: Array) -> None:
    """A number repeated by a clip is no fill, and a fill is large beside the rest only."""
    found = fills(np.where(np.arange(8) == 0, 0.5 if computed.max() < 0.5 else -1e9, computed))
    assert found is not None
    np.testing.assert_array_equal(found[0], np.arange(8) == 0)


@pytest.mark.parametrize("fill", [-1e4, -1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("tolerances", [Tolerances(), Tolerances(relative_l2=0.5)], ids=["bound", "budget"])
def test_a_zero_beside_fills_is_judged(fill: float, tolerances: Tolerances) -> None:
    """A causal mask is an output of zeros and fills, and a wrong zero is far below one rounding of a fill."""
    truth = np.triu(np.full((4, 4), fill), 1)
    own = truth.astype(np.float32)
    wrong, rounded = own.copy(), np.nextafter(own, np.float32(0))
    wrong[2, 0] = -5
    assert output_failure(compare("mask", wrong, truth, own), tolerances) is not None
    assert output_failure(compare("mask", rounded, truth, own), tolerances) is None
    assert output_failure(compare("mask", own, truth, own), tolerances) is None


def test_other_numbers_may_be_repeated_too() -> None:
    flat = np.where(np.arange(8) < 3, -1e9, 1.5)
    np.testing.assert_array_equal(fills(flat), flat == -1e9)
    assert fills(np.where(np.arange(8) < 3, 60.0, 1.5)) is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numbers_of_few_levels_hide_no_fill(dtype: type) -> None:
    """Half precision near 1, or whole scores, repeat as well as a fill does."""
    levels: Array = np.tile(np.arange(8) / 8, (16, 1)).astype(dtype)
    found = fills(np.where(np.arange(8) < 2, dtype(-1e4), levels))
    assert found is not None
    np.testing.assert_array_equal(found[0], np.arange(8) < 2)


def test_of_many_kinds_the_largest_are_found() -> None:
    assert least_fill([filled(-1e3, -1e4, -1e5, 1e6, 1e7)]) == 1e5


def test_parts_and_scales() -> None:
    array = filled(-1e9, np.inf)
    assert least_fill([array[:1], array[1:]]) == 1e9
    (computed, scale), (filling, largest) = scales(array)
    assert (largest, scale) == (1e9, np.abs(array[:, 2:]).max())
    np.testing.assert_array_equal(filling[0], np.arange(8) == 0)
    np.testing.assert_array_equal(computed[0], np.arange(8) >= 2)
    assert [scale for _, scale in scales(np.triu(np.full((4, 4), -1e9), 1))] == [1.0, 1e9]
    assert [scale for _, scale in scales(np.zeros(3))] == [0.0]
    assert [scale for _, scale in scales(np.zeros(0))] == [0.0]


@pytest.mark.parametrize(
    ("number", "places", "is_fill"),
    [(1e4, [3], False), (1e4, [3, 20], True), (1e9, [3], True)],
    ids=["once", "twice", "once, and far above all others"],
)
def test_a_fill_stands_there_twice_or_hides_the_rest(number: float, places: list[int], is_fill: bool) -> None:
    assert (fills(np.where(np.isin(np.arange(32), places), number, COMPUTED.ravel())) is not None) == is_fill


@pytest.mark.parametrize("rest", [0.0, 1e-20])
def test_a_single_1_beside_nothing_is_computed(rest: float) -> None:
    """So is the result of a softmax."""
    assert fills(np.array([rest, 1.0, rest / 2])) is None


def test_an_error_shows_beside_a_fill() -> None:
    truth = filled(-1e9)
    own = truth.astype(np.float32)
    wrong = own.copy()
    wrong[2, 5] *= 1.01
    metrics = compare("y", wrong, truth, own)
    assert metrics.scale == np.abs(COMPUTED[:, 1:]).max()
    assert (metrics.actual.worst_index, metrics.actual.ulps > 1000) == ((2, 5), True)
    assert metrics.actual.relative_l2 > 1e-4
    assert metrics.baseline.ulps <= 1


def test_a_fill_is_judged_at_its_own_scale() -> None:
    truth = filled(-1e9)
    other = truth.astype(np.float32)
    other[:, 0] = np.nextafter(other[:, 0], np.float32(0))
    metrics = compare("y", other, truth, truth.astype(np.float32))
    assert metrics.actual.ulps == pytest.approx(1, rel=0.5)
    gone = compare("y", filled(0.0).astype(np.float32), truth, truth.astype(np.float32))
    assert gone.actual.ulps > 1e6
