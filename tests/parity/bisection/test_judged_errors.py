"""Errors of single values, beside NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.parity.bisection.judged_errors import own_error, whole_error
from ffn_export.parity.judging.runtime_quirks import DROPS_NAN
from ffn_export.parity.judging.tolerances import Tolerances


@pytest.mark.parametrize("lost", [-np.inf, np.nan])
def test_a_value_that_loses_its_infinity_is_wrong(lost: float) -> None:
    """As scores whose mask is gone: no number of theirs is finite in the reference and otherwise in the suspect."""
    truth = np.where(np.tri(4, dtype=bool), 1.0 + np.arange(4), lost)
    own = truth.astype(np.float32)
    wrong = own.copy()
    wrong[1, 2] = 3
    error = own_error("scores", wrong, truth, own, Tolerances())
    assert (error.over, error.unexpected, error.index) == (True, 1, (1, 2))
    assert whole_error(wrong, own).over
    assert not whole_error(wrong, own, caveats=(DROPS_NAN,)).over
    assert not own_error("scores", own, truth, own, Tolerances()).over
    assert not own_error("scores", wrong, truth, own, Tolerances(), caveats=(DROPS_NAN,)).over
