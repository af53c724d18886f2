"""Rows of outputs that come a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ffn_export.calibration.metrics import judge, parse
from ffn_export.calibration.rows_on_disk import RowsOnDisk
from ffn_export.calibration.within_budget import relative_error
from ffn_export.core.types import Array

SHORT, LONG = np.array([[1, 2], [4, 3]], np.float32), np.array([[5, 6, 7]], np.float32)


def joined(parts: Sequence[Array]) -> Array:
    rows = RowsOnDisk()
    for part in parts:
        rows.add(part)
    return rows.joined()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.bool_])
def test_they_are_those_that_came(dtype: Any) -> None:
    found = joined([SHORT.astype(dtype), SHORT[1:].astype(dtype)])
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.concatenate([SHORT, SHORT[1:]]).astype(dtype))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_ones(shape: tuple[int, int]) -> None:
    assert joined([np.zeros(shape, np.float32)]).shape == shape


def test_those_of_several_lengths_stay_rows() -> None:
    before, turned = joined([SHORT, LONG]), joined([-SHORT, -LONG])
    assert before.tolist() == [[1, 2, -np.inf], [4, 3, -np.inf], [5, 6, 7]]
    for metric in ("top1=0.01", "cosine=0.01"):
        assert judge(parse(metric), {"y": before}, {"y": before}).value == 1.0
        assert not judge(parse(metric), {"y": before}, {"y": turned}).passed
    assert relative_error({"y": before}, {"y": joined([2 * SHORT, 2 * LONG])}) == pytest.approx(1.0)


def test_integers_of_several_lengths_are_one_column() -> None:
    found = joined([SHORT.astype(np.int64), LONG.astype(np.int64)])
    assert found.tolist() == [[1], [2], [4], [3], [5], [6], [7]]


@pytest.mark.parametrize("dtype", [object, np.str_, np.bytes_])
def test_strings(dtype: Any) -> None:
    first, second = np.array([["cat", "dog"]]).astype(dtype), np.array([["a longer one", "dog"]]).astype(dtype)
    found, one_off = joined([first, second]), joined([first, first])
    assert found.tolist() == [*first.tolist(), *second.tolist()]
    assert joined([first, second[:, :1]]).tolist() == [[first[0, 0]], [first[0, 1]], [second[0, 0]]]
    assert joined([first[:0], second[:0]]).shape == (0, 2)
    assert relative_error({"y": found}, {"y": joined([first, second])}) == 0.0
    assert judge(parse("top1=0.9"), {"y": found}, {"y": one_off}).value == 0.75
    assert relative_error({"y": joined([first] * 4)}, {"y": joined([second] * 4)}) == pytest.approx(0.05)
