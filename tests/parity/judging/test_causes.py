"""Causes of a failed case: an empty tensor, or a row that an input hides, which may be a mask that nobody declared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.parity.cases.case import Case
from ffn_export.parity.judging.causes import Causes, _unseen
from ffn_export.parity.judging.evidence import Evaluated
from ffn_export.parity.judging.measures import Deviation, OutputMetrics
from ffn_export.parity.judging.result import CaseResult
from ffn_export.parity.judging.runtime_quirks import EMPTY_TENSORS
from ffn_export.parity.judging.tolerances import Tolerances
from tests.runtimes.graphs import write

SEES_NO_KEY = np.array([[1, 1], [0, 0]])


def hint(spec: str, wrong_row: int = 1) -> str | None:
    output = OutputMetrics("y", "float32", 1.0, Deviation(1.0, ulps=1e6, worst_index=(wrong_row, 0)))
    case = CaseResult("ort-cpu", "batch=2", {"batch": 2, "seq": 2}, "normal", 0, (output,))
    parsed = TensorSpec.parse(spec)
    return _unseen(case, {parsed.name: SEES_NO_KEY.astype(numpy_dtype(parsed.dtype))}, [parsed])


@pytest.mark.parametrize("spec", ["m:bool[batch,seq]", "m:int64[batch,seq]{0..1}", "m:int64[batch,seq]"])
def test_an_input_that_may_be_a_mask_is_named_with_its_row(spec: str) -> None:
    found = hint(spec)
    assert found is not None
    assert found.startswith("row 1 of m sees no key: ")
    assert found.endswith("[batch,seq]{mask}")


@pytest.mark.parametrize(
    "spec",
    [
        "m:float32[batch,seq]",
        "m:bfloat16[batch,seq]",
        "m:int64[batch,seq]{0..98}",
        "m:bool[batch,seq]{mask}",
        "padding:bool[batch,seq]",
    ],
)
def test_other_inputs_are_not(spec: str) -> None:
    assert hint(spec) is None


def test_a_hidden_row_that_came_out_right_is_not() -> None:
    assert hint("m:bool[batch,seq]", wrong_row=0) is None


def test_an_input_of_one_axis_hides_no_row() -> None:
    output = OutputMetrics("y", "int64", 1.0, Deviation(1.0, ulps=1e6, worst_index=(1,)))
    case = CaseResult("ort-cpu", "batch=2", {"batch": 2}, "normal", 0, (output,))
    assert _unseen(case, {"m": np.zeros(2, bool)}, [TensorSpec.parse("m:bool[batch]")]) is None


def test_a_row_of_a_mask_for_each_query_is_named_by_both_places() -> None:
    output = OutputMetrics("y", "float32", 1.0, Deviation(1.0, ulps=1e6, worst_index=(1, 0)))
    case = CaseResult("ort-cpu", "batch=2", {"batch": 2, "seq": 2}, "normal", 0, (output,))
    spec = TensorSpec.parse("m:bool[batch,seq,seq]")
    sees_no_key = np.array([[[True, True], [True, False]], [[True, True], [False, False]]])
    assert (_unseen(case, {"m": sees_no_key}, [spec]) or "").startswith("row [1, 1] of m sees no key: ")


@pytest.mark.parametrize(
    ("runtime", "body", "truth", "is_right"),
    [
        ("ort-cpu", "y = Relu(x)", np.zeros((0, 4)), True),
        ("ort-cpu", "y = Relu(x)", np.zeros((1, 4)), False),
        ("ort-cpu", "y = Reshape(x, five)", np.zeros((0, 4)), False),  # the evaluator raises
        ("ort-cpu", "y = NoSuchOperator(x)", np.zeros((0, 4)), False),  # the evaluator refuses the graph
        ("reference", "y = Relu(x)", np.zeros((0, 4)), False),
    ],
)
def test_the_evaluator_tells_whether_a_runtime_mishandles_what_is_empty(
    tmp_path: Path, runtime: str, body: str, truth: np.ndarray[tuple[int, ...], np.dtype[np.float64]], is_right: bool
) -> None:
    artifact = write(tmp_path, "(float[n,4] x) => (float[n,4] y) <int64[1] five = {5}>", body)
    failed = CaseResult(runtime, "batch=0", {"n": 0}, "normal", 0, error="the runtime failed")
    skipped = CaseResult(runtime, "batch=0", {"n": 0}, "normal", 0, skipped="no kernel")
    feeds = {"x": np.zeros((0, 4), np.float32)}
    case = Evaluated(Case("batch=0", {"n": 0}, "normal", 0), feeds, {"y": truth}, {}, (failed, skipped))
    named = Causes(artifact, Tolerances()).named(case, [TensorSpec.parse("x:float32[n,4]")])
    assert [each.caveats for each in named] == [(EMPTY_TENSORS,) if is_right else (), ()]
