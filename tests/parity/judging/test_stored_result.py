"""A stored result follows its schema, and one that was stored long ago is still read and judged.

``data/result-format-2.json`` is what ``verify`` found of ``d2l-ffn-addnorm``, fused for ``ort`` with an epsilon of
1.003e-5 in place of 1e-5, on ``ort-cpu`` and ``reference``. It is not to be written again: it is the format.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ffn_export as fx
from ffn_export.core.json_text import json_text
from ffn_export.errors import UsageError
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import (
    Deviation,
    OutputMetrics,
    PropertyMetrics,
    UntracedConstant,
    WeightMetrics,
)
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Closeness, Tolerances

STORED = Path(__file__).parent / "data" / "result-format-2.json"
SCHEMA = json.loads(resources.files("ffn_export.parity.judging").joinpath("result.schema.json").read_text())
LENIENT, STRICT = Tolerances(floor_ulps=100.0), Tolerances(baseline_factor=0.0, floor_ulps=0.1)


@pytest.fixture
def stored() -> Any:
    return json.loads(STORED.read_text())


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


def statuses(result: ParityResult) -> dict[tuple[str, str], str]:
    return {(case.runtime, case.values): case.status(result.tolerances) for case in result.cases if case.sizes["batch"]}


def test_the_stored_verdict_is_found_again(stored: Any) -> None:
    result = ParityResult.from_dict(stored)
    assert (result.passed, list(result.failures), list(result.warnings)) == (
        stored["passed"],
        stored["failures"],
        stored["warnings"],
    )
    assert statuses(result) == {
        ("ort-cpu", "normal"): "passed",
        ("reference", "normal"): "passed",
        ("ort-cpu", "small"): "warned",
        ("reference", "small"): "failed",
        ("ort-cpu", "offset"): "passed",
        ("reference", "offset"): "passed",
    }
    assert (len(result.weights), len(result.properties)) == (6, 18)
    assert math.isinf(result.cases[2].outputs[0].actual.snr_db)  # without elements nothing differs


def test_it_is_judged_again_both_ways(stored: Any) -> None:
    result = ParityResult.from_dict(stored)
    assert not result.passed
    lenient = result.rejudged(LENIENT)
    assert (lenient.passed, lenient.warnings) == (True, ())
    strict = lenient.rejudged(STRICT)
    assert not strict.passed
    assert statuses(strict)["ort-cpu", "normal"] == "failed"
    assert strict.rejudged(result.tolerances) == result


def test_atol_and_rtol_are_judged_exactly_from_what_is_stored(stored: Any) -> None:
    result = ParityResult.from_dict(stored)
    outputs = [output for case in result.cases for output in case.outputs]
    largest = max(output.actual.max_abs for output in outputs)
    assert result.rejudged(Tolerances(closeness={"*": Closeness(atol=largest)})).passed
    assert not result.rejudged(Tolerances(closeness={"*": Closeness(atol=0.99 * largest)})).passed


def test_what_is_read_is_written_again_as_it_was(stored: Any) -> None:
    written = json_text(ParityResult.from_dict(stored).to_dict())
    for output in (output for case in stored["cases"] for output in case["outputs"]):
        output["caveats"] = []  # a field that the stored result is too old for
    assert written == json_text(stored)


def test_another_format_is_refused(stored: Any) -> None:
    with pytest.raises(UsageError, match=r"format 2, which this version reads \(found: 1\)"):
        ParityResult.from_dict({**stored, "format": 1})


def test_the_stored_result_follows_the_schema(stored: Any, validator: Any) -> None:
    validator.validate(stored)


def test_results_made_now_follow_the_schema(validator: Any) -> None:
    nothing = ParityResult("m.onnx", "spec", Tolerances(), ())
    worst = Deviation(math.inf, math.nan, math.inf, -math.inf, math.nan, 3, 2, (0, 1))
    bad = OutputMetrics("y", "float16", math.inf, worst, worst, math.nan, 2, (0,), 1, ((1.0, 2.0),), None)
    missing = OutputMetrics("z", problem="the runtime has no such output")
    full = ParityResult(
        "m.onnx",
        "spec",
        Tolerances(relative_l2=0.01, closeness={"*": Closeness(1e-5, 1e-3)}),
        (
            CaseResult("ort-cpu", "static normal", {}, "normal", 3, (bad, missing), saved="failing/test_data_set_0"),
            CaseResult("ort-cpu", "loading", {}, "none", 0, error="raised"),
            CaseResult("ort-cpu", "batch=0 normal", {"batch": 0}, "normal", 0, skipped="refused"),
        ),
        {"openvino": "not installed"},
        (CheckResult.of("interface", "as the spec says", ("output 'y' has other axes",)),),
        (WeightMetrics("w", "a+b", 1, math.inf, (0, 0), "packed", 0.1),),
        (PropertyMetrics("ort-cpu", "the same inputs give the same bits", "y", exact=True, problem="it raised"),),
        ("failing inputs are not kept",),
        {"ort-cpu": {"CPUExecutionProvider": 4}},
        {"ort-cpu": "float32"},
        fx.ParityResult.from_dict(json.loads(STORED.read_text())).environment,
        untraced=(UntracedConstant("w", "float32[6,10]", "fc.weight"),),
        unheld=(UntracedConstant("fc.weight", "float32[10,6]"),),
    )
    for result in (nothing, full):
        data = json.loads(json_text(result.to_dict()))
        validator.validate(data)
        assert json_text(ParityResult.from_dict(data).to_dict()) == json_text(result.to_dict())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 1),
        (("passed",), "yes"),
        (("cases", 0, "status"), "fine"),
        (("cases", 0, "outputs", 0, "actual", "ulps"), -1),
        (("cases", 0, "outputs", 0, "actual", "ulps"), "many"),
        (("cases", 0, "outputs", 0, "frontier"), [[1.0]]),
        (("weights", 0, "differing"), 0.5),
        (("environment", "threads"), 0),
        (("tolerances", "closeness"), {"y": {"atol": 1}}),
    ],
)
def test_the_schema_refuses_what_is_no_result(stored: Any, validator: Any, path: tuple[Any, ...], value: Any) -> None:
    place = stored
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert not validator.is_valid(stored)


@pytest.mark.parametrize("name", SCHEMA["required"])
def test_the_schema_asks_for_every_part(stored: Any, validator: Any, name: str) -> None:
    del stored[name]
    assert not validator.is_valid(stored)


def test_the_schema_lists_every_field_that_is_written() -> None:
    foreign = (UntracedConstant("w", "float32[6,10]", "fc.weight"),)
    result = replace(ParityResult.from_dict(json.loads(STORED.read_text())), untraced=foreign, unheld=foreign)
    data = result.to_dict()
    defs = SCHEMA["$defs"]
    case = replace(result.cases[0], hint="row 0 of mask sees no key").to_dict(result.tolerances)
    # What the stored one is too old to say, and what goes without saying.
    output = replace(result.cases[0].outputs[0], elements=60, inner_units=8192.0).to_dict()
    asked = replace(result.properties[0], inner_units=8192.0).to_dict()
    for written, schema in (
        (data, SCHEMA),
        (data["tolerances"], defs["tolerances"]),
        (case, defs["case"]),
        (output, defs["output"]),
        (output["actual"], defs["deviation"]),
        (data["weights"][0], defs["weight"]),
        (data["untraced"][0], defs["untraced"]),
        (data["checks"][0], defs["check"]),
        (asked, defs["property"]),
        (data["environment"], defs["environment"]),
    ):
        assert set(written) == set(schema["properties"])


def test_where_no_size_but_0_fails_the_way_to_leave_it_out_is_said() -> None:
    def failed(**sizes: int) -> CaseResult:
        return CaseResult("ort-cpu", str(sizes), sizes, "normal", 0, error="it refused")

    result = ParityResult("m.onnx", "spec", Tolerances(), (failed(batch=0, seq=3), failed(batch=0, seq=0)))
    assert [line.partition("declare ")[2] for line in result.failures] == ["batch>=1)", "batch>=1 and seq>=1)"]
    result = ParityResult("m.onnx", "spec", Tolerances(), (failed(batch=0, seq=3), failed(batch=2, seq=3)))
    assert not any("declare" in line for line in result.failures)
