"""Drawn inputs of the size of the samples: parts of them, or uniform numbers with their mean and deviation."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.core.drawing import draw_all
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.core.types import Array
from ffn_export.parity.cases.case import Case
from ffn_export.parity.cases.resampling import resampled, with_ranges


def drawn(text: str, sample: Array, **sizes: int) -> Array:
    specs = parse_inputs([text])
    return resampled(specs, draw_all(specs, sizes, 0), {"x": sample}, 0)["x"]


def rows(array: Array) -> set[tuple[float, ...]]:
    return {tuple(row) for row in array.reshape(-1, array.shape[-1]).tolist()}


def test_tokens_are_tokens_of_the_samples_at_any_size() -> None:
    sample = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = drawn("x:float32[batch,seq,4]", sample, batch=5, seq=7)
    assert found.shape == (5, 7, 4)
    assert found.dtype == np.float32
    assert rows(found) == rows(sample)
    assert drawn("x:float32[batch,seq,4]", sample, batch=0, seq=7).shape == (0, 7, 4)
    assert drawn("x:float32[batch,seq,4]", sample[:0], batch=1, seq=7).shape == (1, 7, 4)
    assert drawn("x:float32[]", np.array(3, np.float32)) == 3


def test_a_picture_stays_whole() -> None:
    sample = np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3)
    found = drawn("x:float32[batch,2,3,3]", sample, batch=9)
    assert {tuple(each.ravel()) for each in found} == {tuple(each.ravel()) for each in sample}


def test_fixed_axes_may_stand_before_others() -> None:
    sample = np.arange(8, dtype=np.float32).reshape(2, 4)  # 4 parts of 2 numbers
    found = drawn("x:float32[2,n]", sample, n=50)
    assert found.shape == (2, 50)
    assert rows(found.T) == rows(sample.T)


def test_parts_that_are_not_finite_are_left_out() -> None:
    sample = np.array([[1, 2], [np.nan, 3], [4, np.inf]], np.float32)
    assert rows(drawn("x:float32[n,2]", sample, n=20)) == {(1.0, 2.0)}
    unfit = np.full((3, 2), np.nan, np.float32)
    assert np.isfinite(drawn("x:float32[n,2]", unfit, n=20)).all()


def test_whole_numbers_are_drawn_as_before() -> None:
    specs = parse_inputs(["x:int64[n]{0..98}"])
    before = draw_all(specs, {"n": 20}, 0)
    assert np.array_equal(resampled(specs, before, {"x": np.ones(3, np.int64)}, 0)["x"], before["x"])


def test_a_case_has_its_kind_of_values_on_top() -> None:
    specs, sample = parse_inputs(["x:float32[n,2]"]), np.array([[100, 200]], np.float32)
    assert rows(Case("c", {"n": 3}, "large", 0, like={"x": sample}).feeds(specs)["x"]) == {(3000.0, 6000.0)}


def test_a_range_has_the_mean_and_the_deviation_of_the_samples() -> None:
    sample = np.random.default_rng(0).normal(100, 5, (50, 40)).astype(np.float32)
    (spec,) = with_ranges(parse_inputs(["x:float32[n,40]"]), {"x": sample})
    assert str(spec) == "float32[n,40]{91.2..109.0}"
    found = draw_all([spec], {"n": 200}, 0)["x"]
    assert found.mean() == pytest.approx(100, rel=0.01)
    assert found.std() == pytest.approx(5, rel=0.05)


@pytest.mark.parametrize("text", ["x:float32[n,2]{-1..1}", "x:int64[n,2]{0..5}", "x:float32[n,2]"])
def test_a_range_is_not_invented(text: str) -> None:
    specs = parse_inputs([text])
    sample = np.full((3, 2), 7) if text.endswith("2]") else np.arange(6).reshape(3, 2)
    assert with_ranges(specs, {"x": sample.astype(specs[0].dtype)}) == specs


def test_samples_within_a_range_end_it() -> None:
    (spec,) = with_ranges(parse_inputs(["x:float32[n]"]), {"x": np.array([0, 0, 0, 255], np.float32)})
    assert spec.value_range == (0.0, 255.0)
