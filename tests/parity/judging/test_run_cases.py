"""A whole verification of a small graph: its cases, their order, and their measurements."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.source import from_module
from ffn_export.parity.cases.case import Case
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import _in_order, run_cases
from ffn_export.parity.judging.runtime_quirks import SORTS_NAN
from ffn_export.parity.judging.tolerances import Closeness, Tolerances
from ffn_export.parity.reference.conditioning import MORE_DRAWS
from ffn_export.parity.reference.references import OnnxReference, TorchReference
from ffn_export.runtimes.ort_session import OrtRunner
from ffn_export.runtimes.reference import EvaluatorRunner
from tests.exporter.helpers import module_of
from tests.runtimes.graphs import write

CASES = [Case(values, {"n": 3}, values, 0) for values in ("normal", "offset")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A norm, whose rows may be ill-conditioned."""
    body = "y = LayerNormalization(x, g)"
    artifact = write(tmp_path, "(float[n,4] x) => (float[n,4] y) <float[4] g = {1,1,1,1}>", body)
    assert artifact.model_path is not None
    return artifact.model_path


def verified(path: Path, **options: object) -> ParityResult:
    return run_cases(path, OnnxReference(path, 1), runtimes=["ort-cpu"], cases=CASES, **options)  # type: ignore[arg-type]


@pytest.fixture
def rounding(tmp_path: Path) -> Path:
    """The same norm of inputs that were rounded twice."""
    folder = tmp_path / "rounding"
    folder.mkdir()
    weights = "<float[4] g = {1,1,1,1}, float c = {49}>"
    body = "t = Mul(x, c) u = Div(t, c) y = LayerNormalization(u, g)"
    artifact = write(folder, f"(float[n,4] x) => (float[n,4] y) {weights}", body)
    assert artifact.model_path is not None
    return artifact.model_path


class Lucky(OnnxReference):
    """A reference whose baseline is the oracle, rounded once: its own error allows nothing."""

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        return {name: (truth, truth.astype(own.dtype)) for name, (truth, own) in super().evaluate(feeds).items()}


def test_conditioning_is_measured_where_ill_conditioned_rows_need_it(path: Path, rounding: Path) -> None:
    assert [case.outputs[0].conditioning_ulps for case in verified(path).cases] == [0.0, 0.0]
    result = run_cases(rounding, Lucky(path, 1), runtimes=["ort-cpu"], cases=CASES)
    normal, offset = (case.outputs[0] for case in result.cases)
    assert (normal.conditioning_ulps, offset.actual.ulps > 8, offset.conditioning_ulps > 4) == (0.0, True, True)
    assert result.passed


def test_a_module_that_refuses_inputs_one_rounding_away_allows_none(path: Path, rounding: Path) -> None:
    class Strict(Lucky):
        def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> dict[str, Array]:
            raise ValueError("this number is not on the grid")

    result = run_cases(rounding, Strict(path, 1), runtimes=["ort-cpu"], cases=CASES)
    assert [case.failure(result.tolerances) is None for case in result.cases] == [True, False]
    assert result.cases[1].outputs[0].conditioning_ulps == 0


def test_more_draws_are_only_for_the_runtime_that_is_nearly_right(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def allowed(*_: object, draws: int, **__: object) -> dict[str, float]:
        return {"y": 10.0 if draws == MORE_DRAWS else 0.0}

    class Fixed(OnnxReference):
        def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
            return expected

    reference = Fixed(path, 1)
    expected = Lucky(path, 1).evaluate(CASES[0].feeds(reference.inputs))
    _, right = expected["y"]
    monkeypatch.setattr("ffn_export.parity.judging.run_cases.conditioning.allowed", allowed)
    monkeypatch.setattr(EvaluatorRunner, "run", lambda *_: {"y": right + np.float32(6e-6)})
    monkeypatch.setattr(OrtRunner, "run", lambda *_: {"y": right + np.float32(1)})
    result = run_cases(path, reference, runtimes=["reference", "ort-cpu"], cases=CASES[:1])
    passed = {case.runtime: case.failure(result.tolerances) is None for case in result.cases}
    assert passed == {"reference": True, "ort-cpu": False}


def test_what_is_judged_in_which_order(path: Path) -> None:
    said: list[str] = []
    result = verified(path, progress=said.append)
    assert (result.judged, result.passed, result.tolerances) == (("ort-cpu",), True, Tolerances())
    assert result.notes == ()
    assert said == ["verifying normal (1 of 2)", "verifying offset (2 of 2)", "verifying properties"]


def test_properties_are_asked_on_a_case_that_can_be_compared(path: Path) -> None:
    assert "the same inputs give the same bits" in {each.property for each in verified(path).properties}
    refused = run_cases(path, OnnxReference(path, 1), runtimes=["ort-cpu"], cases=[])
    assert refused.properties == ()


def test_tolerances_are_of_outputs_that_there_are(path: Path) -> None:
    declared = Tolerances(closeness={"y": Closeness(1.0), "*": Closeness(2.0)})
    assert verified(path, tolerances=declared).tolerances == declared
    with pytest.raises(UsageError, match="no output is called 'z'; they are y"):
        verified(path, tolerances=Tolerances(closeness={"z": Closeness(1.0)}))


@pytest.mark.parametrize(("kind", "words"), [("seq", "a sequence"), ("optional", "optional")])
def test_outputs_that_are_no_tensors_are_refused(kind: str, words: str, tmp_path: Path) -> None:
    made = "SequenceConstruct(x)" if kind == "seq" else "Optional(x)"
    artifact = write(tmp_path, f"(float[n,4] x) => ({kind}(float[n,4]) y)", f"y = {made}")
    assert artifact.model_path is not None
    with pytest.raises(UsageError, match=f"output 'y' is {words}, and tensors alone are compared"):
        verified(artifact.model_path)


def test_a_runtime_that_raises_leaves_the_others_to_judge(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: EvaluatorRunner, feeds: Mapping[str, Array]) -> dict[str, Array]:
        raise RuntimeUnavailableError("no kernel for this size") if len(feeds["x"]) == 3 else ValueError("it broke")

    monkeypatch.setattr(EvaluatorRunner, "run", run)
    cases = [Case(str(size), {"n": size}, "normal", 0) for size in (3, 4)]
    result = run_cases(path, OnnxReference(path, 1), runtimes=["reference", "ort-cpu"], cases=cases)
    assert [(each.runtime, each.skipped, each.error, len(each.outputs)) for each in result.cases] == [
        ("reference", "no kernel for this size", None, 0),
        ("ort-cpu", None, None, 1),
        ("reference", None, "the runtime failed: ValueError: it broke", 0),
        ("ort-cpu", None, None, 1),
    ]


def test_the_threads_of_torch_are_as_before(path: Path) -> None:
    class Threaded(OnnxReference):
        def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
            torch.set_num_threads(before + 1)
            return super().evaluate(feeds)

    before = torch.get_num_threads()
    run_cases(path, Threaded(path, 1), runtimes=["ort-cpu"], cases=CASES)
    assert torch.get_num_threads() == before


def test_one_job_needs_no_other_thread() -> None:
    here = threading.get_ident()
    assert set(_in_order(lambda _: threading.get_ident(), range(3), jobs=1)) == {here}
    assert here not in set(_in_order(lambda _: threading.get_ident(), range(3), jobs=2))


def test_results_are_in_order_and_a_failure_ends_the_work() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.01 if item else 0.02)
        return 1 // (item - 3)

    results = _in_order(work, range(30), jobs=2)
    assert [next(results) for _ in range(3)] == [-1, -1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert len(begun) < 30


def test_a_caveat_is_of_the_outputs_that_depend_on_its_operator(tmp_path: Path) -> None:
    """Of the largest element ONNX Runtime gives another index over NaN; that excuses no NaN lost in another output."""
    signature = "(float[n,4] x) => (float[n,4] y, int64[n] i)"
    largest = "i = ArgMax<axis = 1, keepdims = 0>(x)"
    folders = [tmp_path / name for name in ("right", "wrong")]
    for folder in folders:
        folder.mkdir()
    right = write(folders[0], signature, f"y = Neg(x) {largest}").model_path
    wrong = write(folders[1], f"{signature} <float z = {{0}}>", f"t = Neg(x) b = IsNaN(t) y = Where(b, z, t) {largest}")
    assert right is not None
    assert wrong.model_path is not None
    case = Case("nan", {"n": 3}, "nan", 0)
    result = run_cases(wrong.model_path, OnnxReference(right, 1), runtimes=["ort-cpu"], cases=[case])
    assert [output.caveats for output in result.cases[0].outputs] == [(), (SORTS_NAN,)]
    assert "are not the NaN" in str(result.cases[0].failure(result.tolerances))


def test_the_operators_within_a_function_have_their_caveats(tmp_path: Path) -> None:
    """ONNX Runtime's ReduceMax passes over NaN, wherever it stands."""
    text = """<ir_version: 10, opset_import: ["": 20, "own": 1]>
        g (float[n,4] x) => (float[n,4] y) { y = own.below(x) }
        <domain: "own", opset_import: ["": 20]> below (x) => (y) {
            last = Constant<value_ints = [-1]>()
            most = ReduceMax(x, last)
            y = Sub(x, most)
        }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    source = from_module(module_of(lambda self, x: x - x.amax(-1, keepdim=True)), {"x": "float32[n,4]"})
    cases = [Case("nan", {"n": 3}, "nan in parts", 0)]
    result = run_cases(path, TorchReference(source, 1), runtimes=["ort-cpu"], cases=cases)
    assert result.passed
    assert len(result.warnings) == 1
