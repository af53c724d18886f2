"""Annotations of GitHub Actions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.formats import Verification
from ffn_export.reports.github import verification_github


def test_a_line_for_each_failure(failed: ParityResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, *others = verification_github(Verification(failed, path=tmp_path / "a,b" / "m.onnx")).splitlines()
    assert first == (
        "::error file=a%2Cb/m.onnx,title=ort-cpu%2C batch=3%2Cseq=5 large::"
        f"{failed.cases[1].failure(failed.tolerances)}"
    )
    assert [line.partition("title=")[2].partition("::")[0] for line in others] == [
        "openvino%2C loading the model",
        "interface",
        "weights",
    ]


def test_what_passed_says_nothing_and_what_is_warned_is_a_warning(passed: ParityResult, warned: ParityResult) -> None:
    assert verification_github(Verification(passed)) == ""
    (line,) = verification_github(Verification(warned)).splitlines()
    assert line.startswith("::warning file=bert-ffn.onnx,title=ort-cpu%2C batch=3%2Cseq=5 offset::y: error 12")


def test_what_github_reads_is_escaped(passed: ParityResult) -> None:
    check = CheckResult.of("a,b::c\n::error::d%", "fine", ("100%\n::error::e",))
    (line,) = verification_github(Verification(replace(passed, checks=(check,)))).splitlines()
    assert line == r"::error file=bert-ffn.onnx,title=a%2Cb%3A%3Ac\n%3A%3Aerror%3A%3Ad%25::100%25\n::error::e"
