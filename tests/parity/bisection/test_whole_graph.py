"""A whole model on one case, as bisection judges it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ffn_export.parity.bisection.whole_graph import WholeGraph
from ffn_export.parity.judging.runtime_quirks import SORTS_NAN
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from tests.runtimes.graphs import write


@pytest.mark.parametrize(("excused", "is_over"), [("y", False), ("z", True)])
@pytest.mark.parametrize("names", [("z", "y"), ("other", "another")], ids=["by name", "by position"])
def test_a_caveat_is_for_its_output(names: tuple[str, str], excused: str, is_over: bool, tmp_path: Path) -> None:
    """The outputs of the reference are in another order, or have other names."""
    order = "(float[n] y, float[n] z)" if names == ("z", "y") else "(float[n] z, float[n] y)"
    path = write(tmp_path, f"(float[n] x) => {order}", "y = Neg(x) z = Abs(x)").model_path
    assert path is not None
    x = np.array([1.0, 2.0], np.float32)
    expected = {names[0]: x, names[1]: np.full(2, np.nan, np.float32)}  # what the model has numbers for
    wanted = {name: (array.astype(np.float64), array) for name, array in expected.items()}
    caveats = {excused: (SORTS_NAN,)}
    whole = WholeGraph(path, OrtCpu(), 1, {"x": x}, wanted, {}, Tolerances(), excused=False, caveats=caveats)
    assert whole.worst(NO_OPTIMIZER)[1].over == is_over
