"""What a bundle declares of itself stands in the first line of every verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ffn_export.core.json_text import json_text
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.tolerances import Closeness, Tolerances
from ffn_export.reports.assertion import assertion_text
from ffn_export.reports.console import stdout_console
from ffn_export.reports.formats import FORMATS, Verification
from ffn_export.reports.html.page import html_page
from ffn_export.reports.junit import verification_junit
from ffn_export.reports.markdown import verification_markdown
from ffn_export.reports.tables import parity_table

OWN = "under a tolerance that the bundle itself declares: a relative L2 error of 0.02"
HUGE = "so large that zeros would pass"


def under(result: ParityResult, tolerances: Tolerances, *, by_bundle: bool = True) -> ParityResult:
    return result.rejudged(tolerances, declared_by_bundle=by_bundle)


@pytest.mark.parametrize(
    ("tolerances", "zeros_pass"),
    [
        (Tolerances(relative_l2=0.02), False),
        (Tolerances(relative_l2=0.99), False),
        (Tolerances(relative_l2=1.0), True),
        (Tolerances(closeness={"*": Closeness(rtol=1.0)}), True),
        (Tolerances(closeness={"y": Closeness(atol=3.5)}), True),  # the scale of y
        (Tolerances(closeness={"y": Closeness(atol=1.8, rtol=0.5)}), True),
        (Tolerances(closeness={"y": Closeness(atol=1e-4, rtol=0.1)}), False),
        (Tolerances(closeness={"z": Closeness(atol=1e9)}), False),  # an output that it has not
    ],
)
def test_zeros_tell_whether_a_tolerance_judges_anything(
    passed: ParityResult, tolerances: Tolerances, zeros_pass: bool
) -> None:
    for by_bundle in (True, False):
        assert (HUGE in under(passed, tolerances, by_bundle=by_bundle).allowance) == zeros_pass
    assert "that the bundle itself declares" in under(passed, tolerances).allowance


def test_what_the_caller_declares_goes_without_saying(passed: ParityResult) -> None:
    assert under(passed, Tolerances(relative_l2=0.02), by_bundle=False).allowance == ""
    assert passed.allowance == ""
    assert passed.verdict == "passed"


def test_every_first_line_says_it(passed: ParityResult, capsys: pytest.CaptureFixture[str]) -> None:
    result = under(passed, Tolerances(relative_l2=0.02))
    stdout_console().print(parity_table(result))
    firsts = [
        " ".join(capsys.readouterr().out.splitlines()[:2]),  # one sentence in lines of 100 columns
        json_text(result.to_dict()).splitlines()[1],
        str(ElementTree.fromstring(verification_junit(Verification(result))).get("name")),
        verification_markdown(Verification(result)).splitlines()[0],
        next(line for line in html_page(Verification(result)).splitlines() if "<title>" in line),
        next(line for line in html_page(Verification(result)).splitlines() if 'class="verdict"' in line),
        assertion_text(result, "again").splitlines()[0],
    ]
    for line in firsts:
        assert OWN in line


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_every_format_says_it(passed: ParityResult, name: str) -> None:
    result = under(passed, Tolerances(relative_l2=0.02))
    text = next(each for each in FORMATS if each.name == name).text(Verification(result))
    assert OWN in text or not text  # which lists what is wrong, and says nothing of what passed


def test_a_stored_result_remembers_who_declared(passed: ParityResult, tmp_path: Path) -> None:
    result = under(passed, Tolerances(relative_l2=0.02))
    assert ParityResult.from_dict(json.loads(json_text(result.to_dict()))) == result
    old = {name: value for name, value in result.to_dict().items() if name not in ("verdict", "declared_by_bundle")}
    assert ParityResult.from_dict(old) == replace(result, declared_by_bundle=False)
