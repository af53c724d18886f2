"""Every format of reports names a check that failed, and says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.formats import FORMATS, Format, Verification


@pytest.mark.parametrize("each", FORMATS, ids=[each.name for each in FORMATS])
@pytest.mark.parametrize(
    "check",
    [
        CheckResult.of("debugging", "no node prints", ("a node prints",)),
        CheckResult("debugging", "failed", "a node prints"),
    ],
    ids=["finding", "words"],
)
def test_a_failed_check(each: Format, check: CheckResult, passed: ParityResult) -> None:
    result = replace(passed, checks=(check,))
    assert not result.passed
    text = each.text(Verification(result))
    assert "debugging" in text
    assert "a node prints" in text
