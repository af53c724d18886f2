"""Inputs of failing cases are written, a few of them, and the reason where that fails."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from ffn_export.errors import UsageError
from ffn_export.parity.cases.case import Case
from ffn_export.parity.judging.evidence import AllOutputs, Evaluated, FailingInputs
from ffn_export.parity.judging.measures import Deviation, OutputMetrics
from ffn_export.parity.judging.result import CaseResult
from ffn_export.parity.judging.tolerances import Tolerances

X = np.ones((2, 4), np.float32)


def evaluated(name: str, ulps: float = 1e6) -> Evaluated:
    """Return a case that fails if its output is as far off as that."""
    output = OutputMetrics("y", "float32", 1.0, Deviation(ulps / 1e6, ulps=ulps))
    result = CaseResult("ort-cpu", name, {"batch": 2}, "normal", 0, (output,))
    return Evaluated(
        Case(name, {"batch": 2}, "normal", 0),
        {"x": X},
        {"y": 2.0 * X.astype(np.float64)},
        {"ort-cpu": {"y": X}},
        (result,),
    )


@pytest.fixture
def keeper(tmp_path: Path) -> FailingInputs:
    return FailingInputs(tmp_path / "failing", Tolerances())


def test_three_failing_cases_are_written_and_the_others_are_not(keeper: FailingInputs) -> None:
    assert keeper.keep(evaluated("right", ulps=0.0))[0].saved is None
    saved = [keeper.keep(evaluated(f"case {number}"))[0].saved for number in range(5)]
    assert saved == [*(str(keeper.directory / f"case-{n}" / "test_data_set_0") for n in range(3)), None, None]
    assert sorted(path.name for path in keeper.directory.iterdir()) == ["case-0", "case-1", "case-2"]
    written = onnx.numpy_helper.to_array(onnx.load_tensor(keeper.directory / "case-0" / "test_data_set_0/output_0.pb"))
    assert (written.dtype.name, written.tolist()) == ("float32", (2 * X).tolist())


def test_a_place_that_cannot_be_written_to_is_told_once(keeper: FailingInputs) -> None:
    keeper.directory.write_text("in the way")
    assert keeper.keep(evaluated("case"))[0].saved is None
    assert keeper.problem == f"{keeper.directory} cannot be written to: {os.strerror(errno.ENOTDIR)}"
    keeper.directory.unlink()
    assert keeper.keep(evaluated("case"))[0].saved is None
    assert not keeper.directory.exists()


def test_a_skipped_case_has_not_failed(keeper: FailingInputs) -> None:
    case = evaluated("case")
    skipped = replace(case, results=(replace(case.results[0], skipped="refused"),))
    assert keeper.keep(skipped) == skipped.results
    assert not keeper.directory.exists()


def test_every_array_of_a_case_is_written(tmp_path: Path) -> None:
    half = X.astype(ml_dtypes.bfloat16)
    case = replace(evaluated("case 1", ulps=0.0), outputs={"ort-cpu": {"y": X}, "reference": {"y": half}})
    to = tmp_path / "not" / "there"
    assert AllOutputs(to).keep(case) == case.results
    found = {file.stem: dict(np.load(file)) for file in (to / "case-1").iterdir()}
    assert {name: list(arrays) for name, arrays in found.items()} == {
        **{"inputs": ["x"], "oracle": ["y"]},
        **{"ort-cpu": ["y"], "reference": ["y"]},
    }
    np.testing.assert_array_equal(found["oracle"]["y"], 2 * X)
    assert found["reference"]["y"].dtype == np.float32
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(UsageError, match=r"file cannot be written to: Not a directory$"):
        AllOutputs(in_the_way).keep(case)
