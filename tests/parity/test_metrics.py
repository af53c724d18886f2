from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ffn_export.parity.metrics import compare, unit_in_the_last_place
from ffn_export.parity.tolerances import Tolerances, allowed_ulps

ORACLE = np.array([[1.0, -4.0], [2.0, 0.5]])
BASELINE = ORACLE.astype(np.float32)


def test_error_is_counted_in_units_of_the_outputs_own_scale() -> None:
    actual = BASELINE.copy()
    actual[1, 1] += np.float32(3 * np.spacing(np.float32(4.0)))
    metrics = compare("y", actual, ORACLE, BASELINE)
    assert metrics.ulps == pytest.approx(3.0)
    assert metrics.worst_index == (1, 1)
    assert metrics.scale == 4.0
    assert metrics.baseline_ulps == 0.0
    assert metrics.failure(Tolerances()) is None


def test_the_floor_and_pytorchs_own_error_bound_the_error() -> None:
    unit = np.spacing(np.float32(4.0))
    nine_off = compare("y", (ORACLE + 9 * unit).astype(np.float32), ORACLE, BASELINE)
    assert "allowed 8" in str(nine_off.failure(Tolerances()))
    own_three = compare("y", (ORACLE + 9 * unit).astype(np.float32), ORACLE, (ORACLE + 3 * unit).astype(np.float32))
    assert own_three.failure(Tolerances()) is None
    assert allowed_ulps(3.0, Tolerances()) == 12.0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_non_finite_value_fails_where_the_oracle_is_finite(wrong: float) -> None:
    actual = BASELINE.copy()
    actual[0, 0] = wrong
    metrics = compare("y", actual, ORACLE, BASELINE)
    assert (metrics.nonfinite, metrics.unexpected) == (1, 1)
    assert "NaN or infinite" in str(metrics.failure(Tolerances()))


def test_nan_everywhere_never_passes() -> None:
    metrics = compare("y", np.full_like(BASELINE, np.nan), ORACLE, BASELINE)
    assert metrics.failure(Tolerances(baseline_factor=1e9, floor_ulps=1e9)) is not None


def test_a_finite_value_where_the_oracle_is_nan_fails() -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = np.nan
    assert compare("y", BASELINE, oracle, oracle.astype(np.float32)).failure(Tolerances()) is not None


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_the_same_non_finite_value_is_right(special: float) -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = special
    assert compare("y", oracle.astype(np.float32), oracle, oracle.astype(np.float32)).failure(Tolerances()) is None


def test_infinity_of_the_other_sign_is_wrong() -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = np.inf
    actual = oracle.astype(np.float32)
    actual[0, 0] = -np.inf
    assert compare("y", actual, oracle, oracle.astype(np.float32)).failure(Tolerances()) is not None


def test_pytorchs_own_nan_excuses_a_runtime_that_has_it_too() -> None:
    # torch's float32 gelu(+inf) is NaN while the oracle has inf.
    oracle = np.array([np.inf, 1.0])
    baseline = np.array([np.nan, 1.0], np.float32)
    assert compare("y", baseline.copy(), oracle, baseline).failure(Tolerances()) is None
    assert compare("y", oracle.astype(np.float32), oracle, baseline).failure(Tolerances()) is None


def test_missing_output_other_shape_and_other_dtype_are_problems() -> None:
    assert compare("y", None, ORACLE, BASELINE).problem == "the runtime has no such output"
    assert "shape [2], expected [2, 2]" in str(compare("y", BASELINE[0], ORACLE, BASELINE).problem)
    assert "dtype float64" in str(compare("y", ORACLE, ORACLE, BASELINE).problem)


def test_an_empty_output_passes() -> None:
    empty = np.zeros((0, 4), np.float32)
    metrics = compare("y", empty, empty.astype(np.float64), empty)
    assert metrics.failure(Tolerances()) is None
    assert metrics.worst_index == ()


def test_integers_must_be_equal() -> None:
    oracle = np.array([1, 2, 3])
    assert compare("y", oracle, oracle, oracle).failure(Tolerances()) is None
    assert compare("y", oracle + np.array([0, 1, 0]), oracle, oracle).failure(Tolerances()) is not None


@pytest.mark.parametrize(
    ("dtype", "unit"), [(np.float32, 2.0**-21), (np.float16, 2.0**-8), (ml_dtypes.bfloat16, 2.0**-5)]
)
def test_units_in_the_last_place_at_four(dtype: type, unit: float) -> None:
    assert unit_in_the_last_place(4.0, np.dtype(dtype)) == unit
