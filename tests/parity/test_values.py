"""Each kind of values is what its name says, in every precision."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.exporter.drawing import draw_all, float_info
from ffn_export.exporter.tensor_spec import TensorSpec
from ffn_export.parity.values import VALUES

DTYPES = ("float32", "float16", "bfloat16")


def drawn(kind: str, spec: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    parsed = TensorSpec.parse_tensor("x", spec)
    return VALUES[kind].make(draw_all([parsed], {"batch": 3, "seq": 5}, 0)["x"], parsed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_keeps_dtype_and_shape_and_is_finite(dtype: str) -> None:
    for kind in VALUES:
        x = drawn(kind, f"{dtype}[batch,seq,4]")
        assert (x.dtype.name, x.shape) == (dtype, (3, 5, 4))
        assert np.isfinite(x.astype(np.float64)).all()


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
def test_tiny_values_are_denormal_and_not_all_zero(dtype: str) -> None:
    x = np.abs(drawn("tiny", f"{dtype}[batch,64]").astype(np.float64))
    assert 0 < x.max() < float(float_info(drawn("tiny", f"{dtype}[4]").dtype).smallest_normal)


def test_zeros() -> None:
    assert not drawn("zeros", "float32[batch,4]").any()
