"""Numbers that Python and files give: whole ones may be NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ffn_export.core.checked_numbers import LARGEST_SEED, check_seed, check_tokens, is_positive, written
from ffn_export.errors import UsageError


@pytest.mark.parametrize("seed", [0, LARGEST_SEED, np.int64(3), np.uint8(3)])
def test_a_seed(seed: Any) -> None:
    check_seed(seed)


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1, 1.0, "1", None])
def test_no_seed(seed: Any) -> None:
    with pytest.raises(UsageError, match=f"^input_seed must be a whole number from 0 to {LARGEST_SEED}, got {seed!r}$"):
        check_seed(seed, "input_seed")


@pytest.mark.parametrize("tokens", [[1, np.int64(128)], (1,), range(1, 3)])
def test_tokens(tokens: Any) -> None:
    check_tokens(tokens)


@pytest.mark.parametrize("tokens", [[], (), "16", 16, {1: 2}])
def test_what_lists_no_tokens(tokens: Any) -> None:
    with pytest.raises(UsageError, match="tokens are a list of lengths such as"):
        check_tokens(tokens)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_a_length_is_a_whole_number_above_0(count: Any) -> None:
    with pytest.raises(UsageError, match=f"tokens of {count!r} cannot be timed"):
        check_tokens([8, count])


def test_finite_numbers_above_0() -> None:
    given = (1e-9, 1, np.float32(2), 0, -1, float("nan"), float("inf"), "1", None)
    assert [is_positive(each) for each in given] == [True] * 3 + [False] * 6


def test_numbers_in_messages() -> None:
    assert [written(0.5), written(float("nan")), written("2"), written(None)] == ["0.5", "nan", "'2'", "None"]
