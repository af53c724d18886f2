"""No command prints a line of more than 100 columns, unless it is one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.cli.main import run
from ffn_export.reports import console


@pytest.fixture
def narrow(wide: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Wrap at 100 columns, in a directory that short paths name."""
    monkeypatch.setattr(console, "MOST_COLUMNS", 100)
    monkeypatch.chdir(tmp_path)


def test_lines_have_100_columns(narrow: None, capfd: pytest.CaptureFixture[str]) -> None:
    for command in (
        "list", "doctor", "export d2l-ffn-addnorm -o m.onnx", "fuse m.onnx -o f.onnx -v", "inspect f.onnx -v",
        "diff m.onnx f.onnx", "verify f.onnx --against d2l-ffn-addnorm --fast", "build d2l-ffn-addnorm --fast -v",
    ):  # fmt: skip
        run(command.split())
        captured = capfd.readouterr()
        lines = (captured.out + captured.err).splitlines()
        assert lines, command
        assert [line for line in lines if len(line) > 100 and " " in line.strip()] == [], command
