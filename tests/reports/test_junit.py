"""What a CI system reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import PropertyMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.verdict import property_failure, weight_failure
from ffn_export.reports.formats import Verification
from ffn_export.reports.junit import junit_xml_of_many, verification_junit

MakeCase = Callable[..., CaseResult]
MakeParity = Callable[..., ParityResult]


def parsed(result: ParityResult) -> ElementTree.Element:
    return ElementTree.fromstring(verification_junit(Verification(result)))


def test_suites_counts_and_messages(failed: ParityResult, tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(verification_junit(Verification(failed)))
    root = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (root.tests, root.failures, root.errors, root.skipped) == (10, 5, 0, 2)
    assert [suite.name for suite in root] == ["ort-cpu", "openvino", "ort-cuda", "checks", "weights", "runtimes"]
    tests = parsed(failed).iter("testcase")
    messages = {t.get("name"): t[0].get("message") for t in tests if len(t)}
    assert messages == {
        "batch=3,seq=5 large": failed.cases[1].failure(failed.tolerances),
        "batch=0,seq=5 normal": "bert-ffn itself refuses these inputs",
        "loading the model": "the GPU wheel of onnxruntime is not installed",
        "interface": failed.checks[0].findings[0],
        "weights": failed.all_checks[1].findings[0],
        "w2": weight_failure(failed.weights[1], failed.tolerances),
    }


def test_holds_a_failure_exactly_where_the_result_failed(
    passed: ParityResult, warned: ParityResult, failed: ParityResult, case: MakeCase, parity: MakeParity
) -> None:
    skipped = CaseResult("ort-cpu", "c", {}, "normal", 0, skipped="refused")
    empty = replace(passed.cases[0], outputs=tuple(replace(o, elements=0) for o in passed.cases[0].outputs))
    results = [
        passed,
        parity(empty),
        warned,
        failed,
        parity(),
        parity(skipped),
        parity(case("c", math.nan)),
        replace(passed, checks=(CheckResult.of("interface", "as the spec says", ("x",)),)),
    ]
    for result in results:
        assert (parsed(result).find(".//failure") is None) == result.passed


def test_a_warned_case_is_a_passed_test_that_says_so(warned: ParityResult) -> None:
    root = parsed(warned)
    assert (root.attrib["failures"], root.attrib["errors"]) == ("0", "0")
    said = {test.get("name"): test.findtext("system-out") for test in root.iter("testcase")}
    assert said["batch=3,seq=5 normal"] is None
    assert "warned: y: error 12" in str(said["batch=3,seq=5 offset"])
    assert "1.50 times what is allowed" in str(said["batch=3,seq=5 offset"])


def test_each_property_is_a_test_of_its_runtime(passed: ParityResult) -> None:
    asked = (
        PropertyMetrics("ort-cpu", "permuting along seq permutes the results", "y", ulps=40.0, baseline_ulps=1.0),
        PropertyMetrics("ort-cpu", "the same inputs give the same bits", "y", exact=True),
    )
    result = replace(passed, properties=asked)
    suites = {suite.get("name"): suite for suite in parsed(result).iter("testsuite")}
    suite = suites["ort-cpu properties"]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == property_failure(asked[0], result.tolerances)


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("a\x00b", r"a\x00b"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\ud800", r"\ud800"),
        ("\ufffe", r"\ufffe"),
        ("<&>\"'", "<&>\"'"),
        ("größe 🙂", "größe 🙂"),
    ],
)
def test_names_that_xml_cannot_hold_are_escaped(name: str, readable: str, parity: MakeParity) -> None:
    result = parity(CaseResult("ort-cpu", name, {}, "normal", 0, error=f"failed on {name}"))
    test = next(ElementTree.fromstring(verification_junit(Verification(result)).encode()).iter("testcase"))
    assert test.get("name") == readable
    assert test[0].get("message") == f"failed on {readable}"


def test_same_result_gives_the_same_bytes(failed: ParityResult) -> None:
    again = ParityResult.from_dict(failed.to_dict())
    assert verification_junit(Verification(failed)) == verification_junit(Verification(again))


def test_many_verifications_are_one_document(passed: ParityResult, failed: ParityResult) -> None:
    root = ElementTree.fromstring(junit_xml_of_many({"good": passed, "bad": failed, "damaged": "a hash differs"}))
    names = [suite.attrib["name"] for suite in root]
    assert "good: ort-cpu" in names
    assert "bad: weights" in names
    assert names[-1] == "damaged: verification"
    alone = int(parsed(failed).attrib["failures"])
    assert int(root.attrib["failures"]) == alone + 1
    assert int(root.attrib["tests"]) == sum(int(suite.attrib["tests"]) for suite in root)
