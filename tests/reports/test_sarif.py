"""What code scanning reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ffn_export.cli.main import run
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.formats import Verification
from ffn_export.reports.sarif import verification_sarif

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription", "fullDescription", "help"],
    "properties": {"id": {"type": "string"}, "shortDescription": TEXT, "fullDescription": TEXT, "help": TEXT},
}
PLACE = {
    "type": "object",
    "required": ["artifactLocation", "region"],
    "properties": {
        "artifactLocation": {"required": ["uri"], "properties": {"uri": {"type": "string", "pattern": r"^[!-~]+$"}}},
        "region": {"required": ["startLine"], "properties": {"startLine": {"const": 1}}},
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "level", "message", "locations", "partialFingerprints"],
    "properties": {
        "level": {"enum": ["error", "warning"]},
        "message": TEXT,
        "locations": {
            "minItems": 1,
            "items": {"required": ["physicalLocation"], "properties": {"physicalLocation": PLACE}},
        },
        "partialFingerprints": {"required": ["primaryLocationLineHash"], "additionalProperties": {"type": "string"}},
    },
}
# What SARIF 2.1.0 and GitHub's code scanning require.
REQUIRED = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {"required": ["name", "rules"], "properties": {"rules": {"items": RULE}}}
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
jsonschema.Draft202012Validator.check_schema(REQUIRED)
VALIDATOR = jsonschema.Draft202012Validator(REQUIRED)


def sarif(result: ParityResult, path: Path | None = None) -> dict[str, Any]:
    document = json.loads(verification_sarif(Verification(result, path=path)))
    VALIDATOR.validate(document)
    (run_,) = document["runs"]
    assert {rule["id"] for rule in run_["tool"]["driver"]["rules"]} == {each["ruleId"] for each in run_["results"]}
    return dict(run_)


def test_a_result_for_each_failed_case_and_check(failed: ParityResult) -> None:
    found = sarif(failed)["results"]
    assert [(each["ruleId"], each["level"]) for each in found] == [
        ("case", "error"),
        ("case", "error"),
        ("interface", "error"),
        ("weights", "error"),
    ]
    large = failed.cases[1]
    assert found[0]["message"]["text"] == f"ort-cpu, {large.case}: {large.failure(failed.tolerances)}"
    assert len({each["partialFingerprints"]["primaryLocationLineHash"] for each in found}) == len(found)


def test_an_error_exactly_where_the_result_failed(
    passed: ParityResult, warned: ParityResult, failed: ParityResult
) -> None:
    broken = replace(passed, checks=(CheckResult.of("interface", "as the spec says", ("x",)),))
    for result in (passed, warned, failed, broken, replace(passed, cases=())):
        run_ = sarif(result)
        assert any(each["level"] == "error" for each in run_["results"]) != result.passed
        assert run_["properties"]["verdict"] == result.verdict
    assert [each["level"] for each in sarif(warned)["results"]] == ["warning"]


def test_the_location_is_the_model(failed: ParityResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def uri(path: Path | None) -> str:
        place = sarif(failed, path)["results"][0]["locations"][0]["physicalLocation"]
        return str(place["artifactLocation"]["uri"])

    monkeypatch.chdir(tmp_path)
    assert uri(Path("my models/größe.onnx")) == "my%20models/gr%C3%B6%C3%9Fe.onnx"
    assert uri(tmp_path / "a" / "model.onnx") == "a/model.onnx"
    assert uri(tmp_path.parent / "model.onnx") == (tmp_path.parent / "model.onnx").as_uri()
    assert uri(None) == "bert-ffn.onnx"


def test_a_message_makes_no_link(failed: ParityResult) -> None:
    checks = (CheckResult.of("interface", "as the spec says", ("[click](https://e.example)",)),)
    assert not any("](" in each["message"]["text"] for each in sarif(replace(failed, checks=checks))["results"])


def test_as_options(failed: ParityResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored, file = tmp_path / "parity.json", tmp_path / "parity.sarif"
    stored.write_text(json.dumps(failed.to_dict()))
    assert run(["verify", "--rejudge", str(stored), "--sarif", str(file), "--github", "-", "--quiet"]) == 1
    VALIDATOR.validate(json.loads(file.read_text()))
    assert all(line.startswith("::error file=bert-ffn.onnx,") for line in capsys.readouterr().out.splitlines())
