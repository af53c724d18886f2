"""Ill-conditioned rows: what is allowed there, what is warned, and what fails all the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

from ffn_export.core import onnx_file
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.core.types import Array
from ffn_export.exporter.source import Source, from_module
from ffn_export.parity.cases.case import Case, sweep
from ffn_export.parity.judging.imprecise_operators import imprecise_operators
from ffn_export.parity.judging.measures import Deviation, OutputMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.conditioning import allowed, comparable, measured, movement
from ffn_export.parity.reference.references import Reference, TorchReference
from ffn_export.runtimes.registry import get_runtime
from tests.fusion.graphs import model
from tests.parity import add_norms
from tests.parity.faults import edit

SKIP = "com.microsoft::SkipLayerNormalization"
UNIT = 2.0**-24


def on(path: Path, source: Source, *kinds: str, runtime: str = "ort-cpu") -> ParityResult:
    """Verify on 64 rows of each kind."""
    cases = [Case(kind, {"batch": 64}, kind, 0) for kind in kinds]
    return run_cases(path, TorchReference(source, 1), runtimes=[runtime], cases=cases)


def statuses(result: ParityResult) -> list[str]:
    return [case.status(result.tolerances) for case in result.cases]


def of(ulps: float, own: float, conditioning: float, *operators: str) -> CaseResult:
    """Return a case of these measurements."""
    output = OutputMetrics("y", "float32", 0.0, Deviation(ulps=ulps), Deviation(ulps=own), conditioning)
    return CaseResult("ort-cpu", "offset", {}, "offset", 0, (output,), imprecise_operators=operators)


@pytest.mark.slow
def test_conditioning_grows_as_the_mean_over_the_spread(tmp_path: Path) -> None:
    source, _ = add_norms.fused(add_norms.layer_norm, "ort-cpu", tmp_path)
    reference = TorchReference(source, 1)

    def moved(kind: str) -> float:
        feeds = Case(kind, {"batch": 3}, kind, 0).feeds(reference.inputs)
        truth = {name: truth for name, (truth, _) in reference.evaluate(feeds).items()}
        (change,) = movement(reference, feeds, truth, 0).values()
        return change

    assert moved("normal") < 10 * UNIT
    assert 1000 * UNIT < moved("offset") < 10_000 * UNIT


@pytest.mark.slow
def test_only_ill_conditioned_cases_have_a_conditioning(tmp_path: Path) -> None:
    source, path = add_norms.fused(add_norms.layer_norm, "ort", tmp_path)
    result = run_cases(path, TorchReference(source, 1), runtimes=["ort-cpu"], cases=sweep(source.inputs))
    ill = {"small", "large", "outliers", "offset", "constant", "tiny", "denormal", "repeated", "zeros"}
    assert {case.values for case in result.cases} > ill
    for case in result.cases:
        if case.values not in ill:
            assert case.outputs[0].conditioning_ulps == 0


class Rarely(Reference):
    """The identity, which one of many roundings of its inputs moves by so much."""

    def __init__(self, by: float) -> None:
        super().__init__("rarely", parse_inputs({"x": "float32[batch,8]"}))
        self.by = by

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        return {"y": (feeds["x"].astype(np.float64), feeds["x"])}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return feeds

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array]:
        return {"y": feeds["x"].astype(np.float64) + (self.by if rounding_seed == 20 else 0)}


@pytest.mark.parametrize(
    ("error", "by", "values", "passes"),
    [
        (256, 200, "outliers", True),
        (256, 0, "outliers", False),  # no rounding moves it so far
        (256, 200, "normal", False),  # rows that lose no digits
        (6400, 6000, "outliers", False),  # beyond what is measured again
    ],
)
def test_an_error_near_its_bound_is_compared_with_more_roundings(
    error: float, by: float, values: str, passes: bool, tmp_path: Path
) -> None:
    unit = 2.0**-20  # of a row with an element of 8 to 16
    onnx_file.save(
        model("y = Add(x, c)", f"float c = {{{error * unit}}}", inputs="float[batch,8] x", outputs="float[batch,8] y"),
        tmp_path / "m.onnx",
    )
    case = Case(values, {"batch": 64}, values, 0)
    result = run_cases(tmp_path / "m.onnx", Rarely(by * unit), runtimes=["ort-cpu"], cases=[case])
    assert (statuses(result) == ["passed"]) is passes


@pytest.mark.parametrize(("numbers", "is_measured"), [(1, True), (7, True), (8, False)])
def test_few_numbers_are_measured_on_every_case(numbers: int, is_measured: bool) -> None:
    """A score whose terms cancel moves by the roundings of the terms."""
    torch.manual_seed(0)
    reference = TorchReference(from_module(nn.Linear(64, 1).eval(), {"x": "float32[batch,64]"}), 1)
    feeds = Case("normal", {"batch": numbers}, "normal", 0).feeds(reference.inputs)
    moved = allowed(reference, feeds, reference.evaluate(feeds), 0, ill_conditioned=False)
    assert bool(moved) is is_measured
    assert all(UNIT / 8 < change < 8 * UNIT for change in moved.values())


@pytest.mark.slow
@pytest.mark.parametrize("make", [add_norms.layer_norm, add_norms.rms_norm])
def test_the_plain_form_keeps_the_bound(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    source, path = add_norms.fused(make, "ort-cpu", tmp_path)
    result = on(path, source, "offset", "constant", "tiny", "zeros")
    assert statuses(result) == ["passed"] * 4
    assert result.warnings == ()


@pytest.mark.slow
def test_the_skip_operator_is_warned_with_its_factor(tmp_path: Path) -> None:
    source, path = add_norms.fused(add_norms.layer_norm, "ort", tmp_path)
    result = on(path, source, "offset")
    (case,) = result.cases
    assert case.status(result.tolerances) == "warned"
    assert result.passed
    factor = case.factor(result.tolerances)
    assert 1 < factor < 10
    (warning,) = result.warnings
    assert f"{factor:.2f} times what is allowed" in warning
    assert SKIP in warning


@pytest.mark.slow
def test_the_evaluators_own_formula_needs_no_excuse(tmp_path: Path) -> None:
    source, path = add_norms.fused(add_norms.layer_norm, "ort", tmp_path)
    assert imprecise_operators(onnx_file.load(path).graph.all_nodes(), get_runtime("reference")) == ()
    assert imprecise_operators(onnx_file.load(path).graph.all_nodes(), get_runtime("ort-cpu")) == (SKIP,)
    assert statuses(on(path, source, "offset", runtime="reference")) == ["passed"]


@pytest.mark.slow
@pytest.mark.parametrize(("target", "expected"), [("ort", ["warned"]), ("ort-cpu", ["passed"])])
def test_a_preset_with_the_skip_operator_meets_the_same_rows_at_its_norm(
    target: str, expected: list[str], fused_file: Callable[..., Path], source: Callable[[str], Source]
) -> None:
    """Its feed-forward answers a large mean with a large spread; without that, the sum is the input."""
    silent = source("transformer-base")
    model = onnx_file.load(fused_file("transformer-base", target))
    silenced = replace(silent, module=_without_feed_forward(silent.module))
    for value in model.graph.initializers.values():
        if value.const_value is not None and value.const_value.shape.numpy() in ((2048, 512), (512, 2048)):
            value.const_value = ir.Tensor(value.const_value.numpy() * 0, name=value.name)
    path = fused_file("transformer-base", target)
    onnx_file.save(model, path)
    cases = [Case("offset", {"batch": 8, "seq": 8}, "offset", 0)]
    assert statuses(run_cases(path, TorchReference(silenced, 1), runtimes=["ort-cpu"], cases=cases)) == expected


def _without_feed_forward(module: nn.Module) -> nn.Module:
    module = copy.deepcopy(module)
    for parameter in module.parameters():
        if parameter.ndim == 2:
            parameter.data.zero_()
    return module


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ort", "ort-cpu"])
def test_a_wrong_epsilon_fails_on_tiny_rows(target: str, tmp_path: Path) -> None:
    source, path = add_norms.fused(add_norms.layer_norm, target, tmp_path)
    model = onnx_file.load(path)
    node = edit.node_of(model, "LayerNormalization", "SkipLayerNormalization")
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-12)
    onnx_file.save(model, path)
    assert statuses(on(path, source, "tiny")) == ["failed"]


def test_conditioning_excuses_no_more_than_it_explains() -> None:
    tolerances = Tolerances()
    assert of(150, 1, 100).status(tolerances) == "passed"
    assert of(250, 1, 100).status(tolerances) == "failed"
    assert of(250, 1, 100, SKIP).status(tolerances) == "warned"
    assert of(250, 1, 100, SKIP).factor(tolerances) == pytest.approx(1.25)
    assert of(6401, 1, 100, SKIP).status(tolerances) == "failed"
    assert of(33, 1, 0.5, SKIP).status(tolerances) == "failed"


def test_on_other_rows_its_own_sums_explain_twice_the_bound() -> None:
    assert of(9, 1, 0).status(Tolerances()) == "failed"
    assert of(9, 1, 0, SKIP).status(Tolerances()) == "warned"
    assert of(9, 1, 0, SKIP).factor(Tolerances()) == pytest.approx(9 / 8)
    assert of(17, 1, 0, SKIP).status(Tolerances()) == "failed"
    assert of(17, 1, 0, SKIP).status(Tolerances(imprecise_factor=3.0)) == "warned"


@pytest.mark.parametrize("conditioning", [1e9, float("nan"), float("inf")])
def test_nan_is_never_excused(conditioning: float) -> None:
    assert of(float("nan"), 1, conditioning, SKIP).status(Tolerances()) == "failed"
    assert of(1e12, 1, conditioning, SKIP).status(Tolerances()) == "failed"
    surprise = replace(of(0, 1, conditioning, SKIP).outputs[0], unexpected=1)
    assert replace(of(0, 1, 0, SKIP), outputs=(surprise,)).status(Tolerances()) == "failed"


def test_a_warned_case_survives_json() -> None:
    result = ParityResult("m.onnx", "add-norm", Tolerances(), (of(250, 1, 100, SKIP),))
    data = result.to_dict()
    assert (data["passed"], data["cases"][0]["status"], data["cases"][0]["factor"]) == (True, "warned", 1.25)
    assert data["warnings"] == list(result.warnings)
    assert ParityResult.from_dict(data) == result
    assert not result.rejudged(Tolerances(imprecise_factor=1, explained_factor=1)).passed


def test_a_fill_that_a_rounding_moves_allows_nothing_beside_it() -> None:
    truth = np.array([[1.0, 2.0, -1e9], [3.0, 4.0, -1e9]])
    held = comparable(truth, truth.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(held), [[False, False, True]] * 2)
    beyond = comparable(truth, np.where(truth == 4, np.inf, truth).astype(np.float32))
    np.testing.assert_array_equal(np.isnan(beyond), [[False, False, True], [False, True, True]])


def test_of_two_outputs_the_one_of_few_numbers_is_measured() -> None:
    class Two:
        def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array]:
            return {"few": feeds["x"].sum(axis=(0, 1), keepdims=True), "many": np.ones((3, 8))}

    truth = {"few": np.zeros((1, 1)), "many": np.ones((3, 8))}
    assert measured(truth, ill_conditioned=True) == truth
    few = measured(truth, ill_conditioned=False)
    assert list(few) == ["few"]
    for batch in (0, 3):  # without numbers, all are near zero
        assert movement(Two(), {"x": np.ones((batch, 8), np.float32)}, few, 0).keys() == {"few"}
    # An infinity has no rounding: moved by one, it would be NaN, with a warning.
    given = {"x": np.full((3, 8), np.inf, np.float32), "scale": np.array(2.0, np.float32)}
    assert movement(Two(), given, few, 0) == {"few": 0.0}
