"""Each kind of values is what its name says, in every precision."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.core.drawing import draw_all, float_info
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.parity.cases.extreme_values import EXTREME, THRESHOLD, TIES
from ffn_export.parity.cases.values import VALUES

DTYPES = ("float32", "float16", "bfloat16")


def drawn(kind: str, spec: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    parsed = TensorSpec.parse_tensor("x", spec)
    return VALUES[kind].make(draw_all([parsed], {"batch": 3, "seq": 5}, 0)["x"], parsed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_keeps_dtype_and_shape_and_is_finite(dtype: str) -> None:
    for kind in VALUES:
        x = drawn(kind, f"{dtype}[batch,seq,4]")
        assert (x.dtype.name, x.shape) == (dtype, (3, 5, 4))
        assert np.isfinite(x.astype(np.float64)).all() == (not kind.startswith(("nan", "infinite")))


@pytest.mark.parametrize(("dtype", "times"), [("float32", 1000), ("float16", 64), ("bfloat16", 8)])
def test_offset_rows_have_a_large_mean_that_leaves_the_spread_some_digits(dtype: str, times: float) -> None:
    x = drawn("offset", f"{dtype}[batch,4096]").astype(np.float64)
    assert x.mean() == pytest.approx(times, rel=0.02)
    assert x.std() == pytest.approx(1, rel=0.05)


def test_constant_rows_lie_along_the_static_axes() -> None:
    for spec, rows in (("float32[batch,3,4]", 3), ("float32[batch,seq,4]", 15), ("float32[3,4]", 3), ("float32[4]", 1)):
        x = drawn("constant", spec)
        assert len(np.unique(x)) <= rows
        assert np.ptp(x.reshape(rows, -1), axis=-1).max() == 0
        quarters = x.astype(np.float64) * 4
        assert np.array_equal(quarters, np.round(quarters)), "every sum is exact"
        assert quarters.all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_denormal_values_are_denormal_and_not_all_zero(dtype: str) -> None:
    x = np.abs(drawn("denormal", f"{dtype}[batch,64]").astype(np.float64))
    assert 0 < x.max() < float(float_info(drawn("denormal", f"{dtype}[4]").dtype).smallest_normal)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_values_have_a_variance_far_below_every_epsilon_and_are_normal_numbers(dtype: str) -> None:
    x = drawn("tiny", f"{dtype}[batch,4096]").astype(np.float64)
    assert x.var() < 1e-6
    assert np.median(np.abs(x)) > float(float_info(drawn("tiny", f"{dtype}[4]").dtype).smallest_normal)


def test_one_element_in_64_is_an_outlier() -> None:
    x = drawn("outliers", "float32[batch,seq,128]").astype(np.float64).reshape(-1)
    assert x[::64].std() == pytest.approx(100, rel=0.5)
    assert np.delete(x, np.s_[::64]).std() == pytest.approx(1, rel=0.1)


def test_nan_and_infinities_are_in_one_token_each() -> None:
    for kind, tokens in (("nan", [(2, 4)]), ("infinite", [(2, 3), (2, 4)])):
        x = drawn(kind, "float32[batch,seq,4]")
        assert list(zip(*np.nonzero((~np.isfinite(x)).any(-1)), strict=True)) == tokens
        assert np.count_nonzero(~np.isfinite(x)) == len(tokens)
    assert drawn("nan", "float32[0,4]").size == 0


@pytest.mark.parametrize("kind", ["nan in parts", "infinite in parts"])
def test_each_part_of_the_features_is_spoiled_and_every_second_token_is_clean(kind: str) -> None:
    spoiled = ~np.isfinite(drawn(kind, "float32[batch,seq,32]").reshape(15, 32))
    tokens, features = np.nonzero(spoiled)
    assert tokens.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert features.tolist() == [0, 4, 8, 13, 17, 22, 26, 31]


def test_zeros() -> None:
    assert not drawn("zeros", "float32[batch,4]").any()


def test_every_kind_but_the_normal_one_is_extreme() -> None:
    assert {*VALUES, THRESHOLD, TIES} - {"normal"} == EXTREME


def test_repeated_sequences_hold_one_token_each_of_integers_too() -> None:
    for tensor in ("float32[batch,seq,4]", "int64[batch,seq]{0..1000}"):
        x = drawn("repeated", tensor)
        assert (x == x[:, :1]).all()
        assert not (x == x[:1]).all()


def test_eighths_of_normal_numbers_are_often_halfway_once_they_are_scaled() -> None:
    quarters = drawn("eighths", "float32[batch,seq,32]") * 4
    assert np.array_equal(quarters * 2, np.round(quarters * 2))
    assert (quarters % 1 == 0.5).mean() > 0.3
