"""What would switch a gate off, take something away, or judge nothing is refused in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest

import ffn_export as fx
from ffn_export.cli.main import COMMANDS, commands, run
from ffn_export.cli.options import Positive, Whole
from ffn_export.reports.formats import FORMATS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(fused_file: Callable[..., Path]) -> Path:
    """A small model of 4 features."""
    return fused_file("d2l-ffn-addnorm")


def line_of(capfd: Capture, status: int, *arguments: str) -> str:
    assert run(list(arguments)) == status
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ffn-export: ")]
    return lines[-1]


@pytest.mark.parametrize("number", ["nan", "inf", "0", "-1"])
@pytest.mark.parametrize(
    "asked",
    [
        "bench:--max-ratio",
        "verify:--budget",
        "quantize:--budget",
        "tune:--seconds",
        "tune:--budget",
        "build:--max-ratio",
    ],
)
def test_a_gate_is_a_finite_number_above_0(asked: str, number: str, file: Path, capfd: Capture) -> None:
    command, name = asked.split(":")
    rest = ["-o", str(file.with_name("q.onnx"))] if command == "quantize" else []
    assert f"'{name}'" in line_of(capfd, 2, command, str(file), *rest, name, number)


def test_python_is_told_the_same(file: Path, tmp_path: Path) -> None:
    for call in (
        lambda: fx.quantize(file, budget=float("nan")),
        lambda: fx.build("d2l-ffn", directory=tmp_path, max_ratio=float("nan")),
        lambda: fx.build("d2l-ffn", directory=tmp_path, budget=float("inf")),
        lambda: fx.build("d2l-ffn", directory=tmp_path, bench_budget=float("nan")),
        lambda: fx.build("d2l-ffn", directory=tmp_path, require_fusion={"feed_forward": 0}),
        lambda: fx.build("d2l-ffn", directory=tmp_path, seed=-1),
        lambda: fx.verify(file, "d2l-ffn-addnorm", input_seed=-1),
        lambda: fx.quantize(file, seed=-1),
        lambda: fx.bench(file, tokens=[]),
        lambda: fx.TuneOptions(tokens=()),
        lambda: fx.TuneOptions(seconds=float("nan")),
        lambda: fx.bench(file, threads=0),
        lambda: fx.verify(file, "d2l-ffn-addnorm", threads=-1),
    ):
        with pytest.raises(fx.UsageError):
            call()
    assert list(tmp_path.glob("d2l-ffn")) == []


def test_inputs_that_give_nan_alone_judge_nothing(file: Path, tmp_path: Path, capfd: Capture) -> None:
    np.savez(tmp_path / "nan.npz", x=np.full((2, 3, 4), np.nan, np.float32))
    told = line_of(
        capfd,
        1,
        "verify",
        str(file),
        "--against",
        "d2l-ffn-addnorm",
        "--load-inputs",
        str(tmp_path / "nan.npz"),
        "--threads",
        "1",
    )
    assert "no output had any finite element to compare" in told


def test_standard_output_is_for_one_result(file: Path, capfd: Capture) -> None:
    line = line_of(capfd, 2, "verify", str(file), "--against", "d2l-ffn-addnorm", "--json", "-", "--junit", "-")
    assert line == "ffn-export: --json and --junit cannot both be standard output: name a file for one"


def test_json_that_is_nested_too_deep(file: Path, bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    line = line_of(capfd, 2, "verify", str(file), "--against", "d2l-ffn-addnorm", "--baseline", str(deep))
    assert f"{deep} is no JSON" in line
    copied = Path(shutil.copytree(bundle, tmp_path / "copied"))
    (copied / "manifest.json").write_text("[" * 100_000)
    assert "is no JSON" in line_of(capfd, 2, "inspect", str(copied))


def test_more_tokens_than_there_is_memory_for(file: Path) -> None:
    for count, line in ((10**14, r"would be drawn as \[1,100000000000000,4\], too large"), (0, "take 1 or more")):
        with pytest.raises(fx.UsageError, match=line):
            fx.bench(file, "d2l-ffn-addnorm", tokens=[count])


def test_every_number_has_a_range(capfd: Capture) -> None:
    for name in COMMANDS:
        command = commands.get_command(click.Context(commands), name)
        assert command is not None
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert not [each.opts for each in options if each.type in (click.INT, click.FLOAT)]
        for option in options:
            if isinstance(option.type, (Whole, Positive)):
                for number in ("-1", "nan", "1e999", "9" * 400, *(["0"] if "seed" not in option.opts[0] else [])):
                    assert f"Invalid value for '{option.opts[0]}'" in line_of(capfd, 2, name, option.opts[0], number)


def test_no_path_is_empty(capfd: Capture) -> None:
    """An unset variable of a shell gives an empty path, which Python takes for the current directory."""
    for name in COMMANDS:
        found = commands.get_command(click.Context(commands), name)
        assert found is not None
        for parameter in (each for each in found.params if isinstance(each.type, click.Path)):
            with pytest.raises(click.BadParameter, match="the path is empty"):
                parameter.type.convert("", parameter, None)
    assert line_of(capfd, 2, "build", "bert-ffn", "-o", "").endswith("the path is empty")


def test_a_report_takes_no_models_place(file: Path, capfd: Capture) -> None:
    before = file.read_bytes()
    told = line_of(capfd, 2, "verify", str(file), "--against", "d2l-ffn-addnorm", "--json", str(file))
    assert "is the name of a model" in told
    assert file.read_bytes() == before


@pytest.mark.parametrize("kept", ["import torch\n", "# mine\n", "dim = 4\n", "\x08 a note", "PK\x03\x04"])
def test_an_output_takes_no_place_of_a_file_of_another_kind(kept: str, file: Path, capfd: Capture) -> None:
    mine = file.with_name("mine.py")
    mine.write_text(kept)
    arguments = ["fuse", str(file), "-o", str(mine)]
    assert "mine.py exists and does not hold an ONNX model" in line_of(capfd, 2, *arguments)
    arguments = ["fuse", str(file), "-o", str(file.with_name("out.onnx")), "--report", str(mine)]
    assert "mine.py exists and does not hold a report" in line_of(capfd, 2, *arguments)
    arguments = ["quantize", str(file), "-o", str(file.with_name("out.onnx")), "--plot", str(mine)]
    assert "mine.py exists and does not hold a report" in line_of(capfd, 2, *arguments)
    assert mine.read_text() == kept
    assert not file.with_name("out.onnx").exists()


def test_an_output_takes_the_place_of_an_earlier_one(file: Path) -> None:
    for name in ("a", "a.pb", "a.json", "a.textproto", "a.onnxtext"):
        for _ in range(2):
            assert run(["fuse", str(file), "-o", str(file.with_name(name)), "--no-check", "--quiet"]) == 0
    reports = {each.name: str(file.with_name(f"report-{each.name}")) for each in FORMATS}
    options = [word for name, path in reports.items() for word in (f"--{name}", path)]
    for reference in ("d2l-ffn-addnorm", "d2l-ffn-addnorm", "d2l-ffn"):
        run(["verify", str(file), "--against", reference, "--fast", "--runtime", "ort-cpu", "--quiet", *options])
    assert Path(reports["github"]).read_text().startswith("::error ")
    assert Path(reports["markdown"]).read_text().startswith("## ❌ Failed")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("bisect", "did you mean `ffn-export verify --bisect`?"),
        ("baseline", "did you mean `ffn-export verify --baseline` or `ffn-export bench --baseline`?"),
        ("version", "did you mean `ffn-export --version`?"),
        ("load", "'load' is a function of Python, ffn_export.load;"),
        ("optimize", "did you mean 'fuse'?"),
        ("verfy", "did you mean 'verify'?"),
        ("trust", "commands are"),
        ("Site", "commands are"),
        ("", "commands are"),
    ],
)
def test_an_unknown_command_is_answered_with_what_it_is_elsewhere(word: str, meant: str, capfd: Capture) -> None:
    told = line_of(capfd, 2, word)
    assert told.startswith(f"ffn-export: no such command: {word!r}; {meant}")
    assert told.endswith("commands are " + ", ".join(COMMANDS))


def test_an_option_of_other_commands_names_them(capfd: Capture) -> None:
    assert line_of(capfd, 2, "build", "--bisect") == "ffn-export: no such option: --bisect; verify has it"
    assert line_of(capfd, 2, "inspect", "--tokens") == "ffn-export: no such option: --tokens; bench and tune have it"
    assert "'--input'" in line_of(capfd, 2, "build", "--inptu")


def test_two_reports_have_two_files(file: Path, capfd: Capture) -> None:
    told = line_of(capfd, 2, "verify", str(file), "--html", "r", "--json", "./r")
    assert "cannot both be" in told


def test_a_model_is_not_written_to_standard_output(file: Path, capfd: Capture) -> None:
    assert "to standard output" in line_of(capfd, 2, "fuse", str(file), "-o", "-")


def test_a_report_takes_no_place_of_a_file_of_a_bundle(bundle: Path, capfd: Capture) -> None:
    for name in ("manifest.json", "parity.json"):
        before = (bundle / name).read_bytes()
        assert "belongs to a bundle" in line_of(capfd, 2, "inspect", str(bundle), "--json", str(bundle / name))
        assert (bundle / name).read_bytes() == before


@pytest.mark.parametrize("command", ["fuse", "quantize", "tune"])
def test_a_file_of_a_bundle_is_not_written_over(command: str, bundle: Path, capfd: Capture) -> None:
    model = bundle / "model.onnx"
    before = model.read_bytes()
    assert "belongs to a bundle" in line_of(capfd, 2, command, str(model), "-o", str(model))
    with pytest.raises(fx.UsageError, match="belongs to a bundle"):
        fx.save(model, model)
    assert model.read_bytes() == before


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", "", "..", "two\nlines", "n" * 300])
def test_a_name_is_that_of_a_folder(name: str, tmp_path: Path, capfd: Capture) -> None:
    told = line_of(capfd, 2, "build", "d2l-ffn", "-o", str(tmp_path / "out"), "--name", name)
    assert "--name" in told
    assert list(tmp_path.iterdir()) == []


def test_tolerances_are_of_outputs_that_there_are(file: Path, capfd: Capture) -> None:
    told = line_of(capfd, 2, "verify", str(file), "--against", "d2l-ffn-addnorm", "--atol", "z=1")
    assert "no output is called 'z'" in told


@pytest.mark.parametrize("command", ["verify", "bench", "inspect", "join"])
def test_a_directory_that_is_no_bundle_is_bad_input(command: str, tmp_path: Path, capfd: Capture) -> None:
    rest = [str(tmp_path), "-o", str(tmp_path / "out")] if command == "join" else []
    assert "is no bundle" in line_of(capfd, 2, command, str(tmp_path), *rest)


@pytest.mark.slow
@pytest.mark.parametrize("named", [[], ["--runtime", "ort-cpu"]])
def test_a_model_that_nobody_timed_is_no_success(named: list[str], file: Path, capfd: Capture) -> None:
    told = line_of(capfd, 2, "bench", str(file), "--against", "apx-ffn", "--tokens", "1", *named)
    assert "the model was not timed: " in told
    assert "ort-cpu at batch=1,seq=1" in told


@pytest.mark.integration
def test_with_standard_error_closed_the_verdict_is_the_same(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ffn_export.cli.main", "verify", str(file), "--against", "d2l-ffn-addnorm"]
    command.append("--fast")
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" 2>&-', "bash", *command], cwd=tmp_path, stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_copy_of_a_bundle_elsewhere_may_be_written_beside(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "copy")
    out = tmp_path / "copy" / "fused.onnx"
    assert run(["fuse", str(bundle / "model.onnx"), "-o", str(out), "--quiet"]) == 0
    assert out.is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "model.onnx"], "Missing argument 'B': write ffn-export diff [OPTIONS] A B"),
        (["doctor", "more"], "Got unexpected extra argument (more): write ffn-export doctor [OPTIONS]"),
        (["fuse", "model.onnx"], "Missing option '-o' / '--output'."),
    ],
)
def test_arguments_that_are_missing_or_too_many(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"ffn-export: {said}\n"
