"""No command prints a line of more than 100 columns, unless it is one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.cli.main import COMMANDS, run
from ffn_export.reports import console
from tests.bundle.processors import on_another_processor

LONG = "-".join(["a-name-of-many-words"] * 4)
PLAIN = f"""
    list
    doctor
    export d2l-ffn-addnorm -o m.onnx --name {LONG}
    fuse m.onnx -o {LONG}/f.onnx -v
    inspect {LONG}/f.onnx -v
    diff m.onnx {LONG}/f.onnx
    quantize m.onnx -o {LONG}/q.onnx --budget 0.2
    verify {LONG}/f.onnx --against d2l-ffn-addnorm --fast
    bench {LONG}/f.onnx --against d2l-ffn-addnorm --tokens 2 --threads 1 -v
    build d2l-ffn-addnorm --fast -v --name {LONG}
    tune m.onnx --tokens 1 --seconds 0.001 --threads 1
    matrix zoo.toml -o {LONG}
    join exported/{LONG} elsewhere/{LONG} -o exported/{LONG}-joined --fast
"""
FAILING = f"verify {LONG}/f.onnx --against d2l-ffn --runtime ort-cpu --fast --bisect --reduce {LONG}/r -v"


@pytest.fixture
def narrow(wide: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Wrap at 100 columns, in a directory that short paths name."""
    monkeypatch.setattr(console, "MOST_COLUMNS", 100)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo.toml").write_text(f'fast = true\n[[model]]\nspec = "d2l-ffn"\nname = "{LONG}"\n')


@pytest.mark.slow
def test_lines_have_100_columns(narrow: None, capfd: pytest.CaptureFixture[str]) -> None:
    commands = [line.split() for line in PLAIN.strip().splitlines()]
    assert {words[0] for words in commands} == set(COMMANDS), "a command whose output is not looked at"
    for words in (*commands, FAILING.split()):
        if words[0] == "join":
            on_another_processor(Path(words[1]), Path(words[2]))
        run(words)
        captured = capfd.readouterr()
        # The message of an error, and a command to copy, are one line each, for a log.
        lines = [
            line
            for line in (captured.out + captured.err).splitlines()
            if not line.startswith(("ffn-export: ", "replay "))
        ]
        assert lines, words
        whole = (line.removesuffix(" \\") for line in lines)
        assert [line for line in whole if len(line) > 100 and " " in line.strip()] == [], words
