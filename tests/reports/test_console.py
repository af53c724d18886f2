"""What reaches a pipe is whole and literal; what reaches a terminal may fold, and is literal too."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from ffn_export.reports.console import stderr_console, stdout_console
from ffn_export.reports.tables.layout import Table

SPEC = "x:float32[batch,seq,512]"
LONG = "encoder/" + "layer." * 60


def test_pipe_gets_whole_names_in_text_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "value")
    table.add(LONG, LONG)
    console = stdout_console()
    console.print(f"a {LONG} b")
    console.print(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["a", LONG, "b"]
    assert [line.count(LONG) for line in lines if LONG in line] == [1, 1, 1]


def test_no_line_is_wider_than_100_columns_and_no_word_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("site", "number", "form", "reason", "name", numbers=("number",))
    table.add("norm:0", "1", "Add LayerNormalization " * 3, "a reason of many words " * 6, LONG[:90])
    stdout_console().print(table)
    stdout_console().print("many words " * 30)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert set(out.split()) - {"─" * n for n in range(101)} <= {
        "site",
        "number",
        "form",
        "reason",
        "name:",
        "norm:0",
        "1",
        "Add",
        "LayerNormalization",
        "a",
        "of",
        "many",
        "words",
        LONG[:90],
    }


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"])
def test_no_variable_makes_a_pipe_a_terminal(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "1")
    stdout_console().print(LONG, style="bold red")
    assert capsys.readouterr().out == LONG + "\n"


@pytest.mark.parametrize("text", [SPEC, "[bold]x[/bold]", "[/]", ":warning:", "<not> & markup"])
def test_user_text_is_literal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name")
    table.add(text)
    stdout_console().print(text)
    stdout_console().print(table)
    assert capsys.readouterr().out.count(text) == 2


def test_tables_are_literal_on_any_console() -> None:
    stream = io.StringIO()
    table = Table("input", "output")
    table.add(SPEC, "[red]y")
    Console(file=stream, width=100, force_terminal=False).print(table)  # one that reads markup
    assert SPEC in stream.getvalue()
    assert "[red]y" in stream.getvalue()


def test_terminal_folds_but_never_cuts() -> None:
    stream = io.StringIO()
    table = Table("name")
    table.add(LONG)
    Console(file=stream, width=40, force_terminal=True, no_color=True).print(table)
    assert "…" not in stream.getvalue()
    assert LONG in "".join(line.strip() for line in stream.getvalue().splitlines())


def test_quiet_is_silent_and_streams_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    stderr_console(quiet=True).print("nothing")
    stderr_console().print("progress")
    stdout_console().print("answer")
    assert capsys.readouterr() == ("answer\n", "progress\n")


def test_name_that_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    stdout_console().print("schicht_größe")
    sys.stdout.flush()
    assert raw.getvalue() == b"schicht_gr\\xf6\\xdfe\n"
