"""Names from a file cannot control a terminal or a CI runner, whichever way they are written."""

from __future__ import annotations

import html
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from rich.text import Text

from ffn_export.cli.state import State
from ffn_export.core.json_text import json_text
from ffn_export.core.plain_text import safe_json, safe_lines, visible
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.assertion import assertion_text
from ffn_export.reports.console import stderr_console, stdout_console
from ffn_export.reports.formats import FORMATS, Verification
from ffn_export.reports.html.page import html_page
from ffn_export.reports.junit import verification_junit
from ffn_export.reports.markdown import verification_markdown
from ffn_export.reports.streams import say, say_traceback
from ffn_export.reports.tables import parity_summary_table, parity_table
from ffn_export.reports.tables.layout import Table
from ffn_export.reports.text_file import write_text

CONTROLS = "\x00\a\b\t\v\f\r\x1b[31m\x7f\x85\x9b\u061c\u200e\u2028\u2029\u202e\u2066\udc80"
HOSTILE = f"a\n::error file=x::b\n \u00a0::set-env name=A::c ##[error]d ##vso[task.complete]e{CONTROLS}"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def is_harmless(text: str) -> bool:
    lines = text.splitlines()
    return not (
        FORBIDDEN.search(text)
        or any(line.strip().startswith("::") for line in lines)
        or any(re.search(r"##\w*\[", line) for line in lines)
    )


def without_own_command(line: str) -> str:
    """Return what a line says, without the command that a format of commands begins it with."""
    match = re.fullmatch(r"::(?:error|warning) file=([^:,\n]*),title=([^:,\n]*)::([^\n]*\n)", line)
    assert match, line
    return "\n".join(unquote(part) for part in match.groups())


@pytest.fixture
def hostile(failed: ParityResult) -> ParityResult:
    cases = tuple(replace(case, case=HOSTILE, error=HOSTILE) for case in failed.cases)
    checks = (CheckResult.of(HOSTILE, HOSTILE, (HOSTILE,)),)
    return replace(
        failed,
        model=HOSTILE,
        against=HOSTILE,
        cases=cases,
        notes=(HOSTILE,),
        checks=checks,
        unavailable={HOSTILE: HOSTILE},
        placement={HOSTILE: {HOSTILE: 1}},
    )


def test_the_text_itself_is_told_apart() -> None:
    assert not is_harmless(HOSTILE)
    assert is_harmless("two\nlines of com.microsoft::Gelu, # of them 2")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe ✅ 語 com.microsoft::Gelu", "größe ✅ 語 com.microsoft::Gelu"),
        ("a\nb\x1b[0m", r"a\nb\x1b[0m"),
        ("x\u202ey", r"x\u202ey"),
        ("\ud800", r"\ud800"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_of_ours_stay_and_commands_do_not() -> None:
    assert safe_lines("a\n\tb\n") == "a\n\tb\n"
    assert safe_lines("  ::error::x\n##vso[y]\n## heading") == "  \\x3a:error::x\n\\x23#vso[y]\n## heading"


def test_many_blank_lines_take_no_time() -> None:
    assert safe_lines("\n" * 200_000).count("\n") == 200_000


def test_json_keeps_its_data() -> None:
    data = {HOSTILE: [HOSTILE]}
    text = json_text(data)
    assert is_harmless(text)
    assert json.loads(text) == data
    assert json.loads(safe_json(json.dumps("\x7f##[x"))) == "\x7f##[x"


def test_reports(hostile: ParityResult) -> None:
    for each in FORMATS:
        text = each.text(Verification(hostile))
        assert each.begins.strip()
        assert text.startswith(each.begins)
        if each.commands:
            text = "".join(without_own_command(line) for line in text.splitlines(keepends=True))
        assert is_harmless(text if each.commands else safe_lines(text)), each.name
    assert is_harmless(assertion_text(hostile, HOSTILE))
    ET.fromstring(verification_junit(Verification(hostile)))
    assert r"a\n::error" in html.unescape(html_page(Verification(hostile)))


def test_every_written_file_is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_text(HOSTILE, tmp_path / "r.txt")
    write_text(HOSTILE, "-")
    assert is_harmless((tmp_path / "r.txt").read_text(encoding="utf-8"))
    assert is_harmless(capsys.readouterr().out)


def test_console(hostile: ParityResult, capsys: pytest.CaptureFixture[str]) -> None:
    console = stdout_console()
    console.print(HOSTILE)
    console.print(Text(HOSTILE), Text("::warning::x"))
    console.print(Text.assemble("::x", ("\n::error::y", "bold")))
    console.print(parity_table(hostile))
    console.print(parity_summary_table({HOSTILE: HOSTILE}))
    stderr_console().print(HOSTILE)
    with State().progress() as report:
        report(HOSTILE)
    printed = capsys.readouterr()
    assert is_harmless(printed.out)
    assert is_harmless(printed.err)


@pytest.mark.parametrize("width", range(8, 16))
def test_a_name_that_folds(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    table = Table("name", "b")
    table.add("aaaa::error::boom::error::boom " * 3, "x")
    stdout_console().print(table)
    stdout_console().print("bbbb ::error::boom::error::boom " * 3)
    assert "aaaa" in terminal.getvalue()
    assert not any(line.strip().startswith("::") for line in terminal.getvalue().splitlines())


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "value")
    table.add("a\x1bb", "1")
    table.add("plain", "2")
    stdout_console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines[2:]] == [r"a\x1bb  1", "plain   2"]


def test_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    assert capsys.readouterr().err.count("\n") == 1
    say("::error::x")
    say_traceback(ValueError(HOSTILE))
    assert is_harmless(capsys.readouterr().err)


def test_markdown_makes_no_links(hostile: ParityResult) -> None:
    named = replace(hostile, model="@you https://e.example www.e.example [a](b) <script>|`x`")
    heading = verification_markdown(Verification(named)).splitlines()[0]
    assert "@<!-- -->you https:<!-- -->//e.example www<!-- -->.e.example" in heading
    assert r"\[a\](b) \<script\>|\`x\`" in heading
