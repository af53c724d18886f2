"""Messages speak of the caller's arguments: options in the shell, keywords in Python."""

from __future__ import annotations

import pytest

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.errors import UsageError, for_the_shell
from tests.exporter.helpers import refusal


@pytest.mark.parametrize(
    ("written", "in_python"),
    [
        ("name it with --against", "name it with against="),
        ("take --target ort-cpu", "take target='ort-cpu'"),
        ("use --opset 18 to 23", "use opset=18 to 23"),
        ("add --input 'm:DTYPE[DIM,...]' (given)", "add inputs='m:DTYPE[DIM,...]' (given)"),
        ("add --trust if you trust it", "add trust=True if you trust it"),
        ("a file of `ffn-export verify --json`", "a file of `ffn-export verify --json`"),
        ("no such file: a--name", "no such file: a--name"),
    ],
)
def test_an_option_is_an_argument_in_python(written: str, in_python: str) -> None:
    assert str(UsageError(written)) == in_python
    with for_the_shell():
        assert str(UsageError(written)) == written


def test_each_caller_reads_its_own_words(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/m.onnx"
    fx.save(fx.export("d2l-ffn"), path)
    assert "verify against with against=: a preset" in refusal(UsageError, fx.verify, path)
    assert run(["verify", path]) == 2
    assert "verify against with --against: a preset" in capsys.readouterr().err
