"""A verification as JUnit XML, which CI systems show test by test.

The document has these suites:

1. one for each runtime, with its cases,
2. one for the checks of the whole graph,
3. one for the weights, with a test for each,
4. one for the properties of each runtime,
5. one that fails if no runtime judged the model, because a run with only skipped tests looks green.

A warned case is a passed test with the warning in its ``system-out``: JUnit has no status between passed and failed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from ffn_export.core.matrix_cell import Cell
from ffn_export.core.plain_text import visible
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.reports.formats import Verification

_FORBIDDEN = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True)
class Warned:
    """A passed test with a warning."""

    message: str


Outcome = Failure | Skipped | Warned | None


def verification_junit(verification: Verification) -> str:
    """Return a verification as a JUnit XML document, which has a failure if and only if the result failed."""
    result = verification.result
    allowed = f", {result.allowance}" if result.allowance else ""
    return _document(f"{result.model} against {result.against}{allowed}", _suites(result))


def junit_xml_of_many(results: Mapping[str, ParityResult | str]) -> str:
    """Return several verifications as one document.

    Args:
        results: Name of a model -> its verification, or the reason why it could not be verified, reported as a failure.
    """
    suites: list[TestSuite] = []
    for name, result in results.items():
        if isinstance(result, str):
            unread = ParityResult(name, "", Tolerances(), ())
            suites.append(_suite(unread, f"{name}: verification", [("could be verified", _failure(result))]))
            continue
        for suite in _suites(replace(result, model=name)):
            allowed = f", {result.allowance}" if result.allowance else ""
            suite.name = _legal(f"{name}{allowed}: {suite.name}")
            suites.append(suite)
    return _document("parity", suites)


def junit_xml_of_cells(cells: Iterable[Cell]) -> str:
    """Return the cells of a matrix as one document: a suite for each model, a test for each cell."""
    suites: dict[str, TestSuite] = {}
    for cell in cells:
        suite = suites.setdefault(cell.model, TestSuite(_legal(cell.model)))
        name = " ".join(filter(None, (cell.action, cell.target, cell.dtype, cell.runtime, cell.processor)))
        test = TestCase(_legal(name), classname=_legal(cell.model), time=cell.seconds)
        if cell.verdict == "failed":
            test.result = [Failure(_legal(cell.message), cell.action)]
        elif cell.status:
            test.result = [Error(_legal(cell.message), cell.verdict)]
        elif cell.verdict == "warned":
            test.system_out = _legal(f"warned: {cell.message}")
        suite.add_testcase(test)
    return _document("matrix", suites.values())


def _suites(result: ParityResult) -> Iterator[TestSuite]:
    for runtime in dict.fromkeys(case.runtime for case in result.cases):
        yield _suite(result, runtime, _runtime_outcomes(result, runtime))
    for runtime, reason in result.unavailable.items():
        yield _suite(result, runtime, [("loading the model", Skipped(_legal(reason)))])
    yield _suite(result, "checks", [(check.name, _check_outcome(check)) for check in result.all_checks])
    yield _suite(result, "weights", _weight_outcomes(result))
    for runtime in dict.fromkeys(each.runtime for each in result.properties):
        yield _suite(result, f"{runtime} properties", _property_outcomes(result, runtime))
    yield _suite(result, "runtimes", [("at least one runtime judged the model", _failure(result.nothing_judged))])


def _document(name: str, suites: Iterable[TestSuite]) -> str:
    root = JUnitXml(_legal(name))
    for suite in suites:
        root.add_testsuite(suite)
    root.update_statistics()  # type: ignore[no-untyped-call]
    buffer = io.BytesIO()
    root.write(buffer, pretty=True)
    return buffer.getvalue().decode()


def _suite(result: ParityResult, name: str, outcomes: Iterable[tuple[str, Outcome]]) -> TestSuite:
    suite = TestSuite(_legal(name))
    tests = []
    for test_name, outcome in outcomes:
        test = TestCase(_legal(test_name), classname=_legal(f"{result.model}.{name}"))
        if isinstance(outcome, Warned):
            test.system_out = _legal(f"warned: {outcome.message}")
        elif outcome is not None:
            test.result = [outcome]
        tests.append(test)
    suite.add_testcases(tests)
    return suite


def _runtime_outcomes(result: ParityResult, runtime: str) -> Iterator[tuple[str, Outcome]]:
    for case in result.cases:
        if case.runtime != runtime:
            continue
        if case.skipped is not None:
            yield case.case, Skipped(_legal(case.skipped))
        elif (warning := case.warning(result.tolerances)) is not None:
            yield case.case, Warned(warning)
        else:
            yield case.case, _failure(case.failure(result.tolerances))


def _check_outcome(check: CheckResult) -> Outcome:
    if check.verdict == "failed":
        return _failure("; ".join(check.faults))
    if check.verdict == "not checked":
        return Skipped(_legal(check.words))
    return Warned(check.words) if check.verdict == "warned" else None


def _weight_outcomes(result: ParityResult) -> Iterator[tuple[str, Outcome]]:
    for weight in result.weights:
        yield weight.initializer, _failure(verdict.weight_failure(weight, result.tolerances))
    for constant in result.untraced:
        yield constant.name, Skipped(f"{constant.type}: matches no parameter")
    for parameter in result.unheld:
        yield f"parameter {parameter.name}", Skipped(f"{parameter.type}: no constant holds it")
    if not (result.weights or result.untraced or result.unheld):
        yield "initializers", Skipped("no initializer was traced to a parameter")


def _property_outcomes(result: ParityResult, runtime: str) -> Iterator[tuple[str, Outcome]]:
    for each in result.properties:
        if each.runtime == runtime:
            name = f"{each.property} ({each.output})" if each.output else each.property
            yield name, _failure(verdict.property_failure(each, result.tolerances))


def _failure(message: str | None) -> Outcome:
    return None if message is None else Failure(_legal(message), "parity")


def _legal(text: str) -> str:
    """Return text with control characters, and characters that XML forbids, escaped."""
    return _FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), visible(text))
