"""The error of a graph over the scale of its output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corpus.checks import Case, _error
from ffn_export.core.types import Array


def error(got: Array, wanted: Array) -> float:
    class Session:
        def run(self, names: object, feeds: object) -> list[Array]:
            return [got]

    session: Any = Session()
    return _error(session, Case({}, wanted))


@pytest.mark.parametrize("fill", [-1e9, -np.inf, np.nan])
def test_an_error_shows_beside_a_fill(fill: float) -> None:
    wanted = np.where(np.arange(8) < 2, fill, 1 + np.arange(8.0)).astype(np.float32)
    assert error(wanted, wanted) == 0.0
    assert error(np.where(np.arange(8) == 7, 0, wanted), wanted) == 1.0
    assert error(np.where(np.arange(8) == 0, 0, wanted), wanted) >= 1.0
    assert error(np.where(np.arange(8) == 7, np.nan, wanted), wanted) == np.inf


def test_no_elements_are_no_error() -> None:
    assert error(np.zeros((0, 4)), np.zeros((0, 4))) == 0.0
    assert error(np.zeros((0, 4)), np.zeros((0, 5))) == np.inf
