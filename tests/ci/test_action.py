"""The GitHub Action: its form, and its shell steps, run by bash as a runner does."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ffn_export as fx
from ffn_export.core import onnx_file
from tests.ci.yaml_files import ROOT, parse, problems

ACTION: dict[str, Any] = parse((ROOT / "action.yml").read_text())
INSTALL, VERIFY = ACTION["runs"]["steps"]


@dataclass
class Job:
    """A step that ran: its status and log, what it gave out, and the summary."""

    status: int
    log: str
    outputs: dict[str, str]
    summary: str


@dataclass
class Runner:
    """A place where steps run. ``commands`` is first on PATH."""

    directory: Path
    commands: Path

    def command(self, name: str, script: str) -> None:
        file = self.commands / name
        file.write_text(f"#!/usr/bin/env bash\n{script}\n")
        file.chmod(0o755)

    def records(self, name: str, status: int = 0) -> Path:
        """Put a command in place that writes its arguments, one a line, and exits with a status."""
        self.command(name, f'printf "%s\\n" "$@" > "{self.directory}/{name}.txt"; exit {status}')
        return self.directory / f"{name}.txt"

    def run(self, step: dict[str, Any], **inputs: str) -> Job:
        given = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()} | {
            name.replace("_", "-"): value for name, value in inputs.items()
        }
        files = {name: self.directory / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        env = {
            **os.environ,
            **{name: evaluated(value, given) for name, value in step["env"].items()},
            **{name: str(file) for name, file in files.items()},
            "GITHUB_ACTION_PATH": str(ROOT),
            "RUNNER_TEMP": str(self.directory / "temp dir"),
            "PATH": f"{self.commands}{os.pathsep}{os.environ['PATH']}",
        }
        script = self.directory / "step.sh"
        script.write_text(step["run"])
        # What a runner makes of `shell: bash`.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(command, cwd=self.directory, env=env, capture_output=True, text=True, check=False)
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        outputs = dict(line.split("=", 1) for line in lines)
        return Job(done.returncode, done.stdout + done.stderr, outputs, files["GITHUB_STEP_SUMMARY"].read_text())


def evaluated(expression: str, inputs: dict[str, str]) -> str:
    match = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", expression)
    assert match, f"{expression} is no input"
    return inputs[match[1]]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    (tmp_path / "bin").mkdir()
    (tmp_path / "temp dir").mkdir()
    return Runner(tmp_path, tmp_path / "bin")


@pytest.mark.integration
def test_it_follows_the_published_schema() -> None:
    assert problems(ROOT / "action.yml", "vendor.github-actions") == ""


def test_no_expression_is_inside_a_script() -> None:
    for step in (INSTALL, VERIFY):
        assert "${{" not in step["run"]


def test_every_input_is_used_and_every_output_is_set(runner: Runner) -> None:
    used = {match for step in (INSTALL, VERIFY) for match in re.findall(r"inputs\.([\w-]+)", str(step["env"]))}
    assert used == set(ACTION["inputs"])
    runner.records("ffn-export")
    given = {re.findall(r"steps\.verify\.outputs\.(\w+)", output["value"])[0] for output in ACTION["outputs"].values()}
    assert given == set(runner.run(VERIFY, model="m.onnx").outputs)


def test_inputs_become_arguments(runner: Runner) -> None:
    recorded = runner.records("ffn-export")
    job = runner.run(
        VERIFY,
        model="my model.onnx",
        against="my.models:make",
        inputs="ids:int64[batch,seq<=512]\nmask:bool[batch, seq]\n",
        runtimes="ort-cpu\nreference",
        atol="1e-4 y=1e-3",
        baseline="old results.json",
        arguments="--dtype=float16\n--seed\n3\n",
        report_directory="reports",
    )
    assert job.status == 0, job.log
    words = recorded.read_text().splitlines()
    assert words == [
        "verify",
        *("--json", "reports/parity.json", "--junit", "reports/parity.xml", "--markdown", "reports/parity.md"),
        *("--sarif", "reports/parity.sarif", "--github", "-"),
        *("--failures", "reports/parity-failures", "--against", "my.models:make", "--baseline", "old results.json"),
        *("--atol", "1e-4", "--atol", "y=1e-3", "--runtime", "ort-cpu", "--runtime", "reference"),
        *("--input", "ids:int64[batch,seq<=512]", "--input", "mask:bool[batch, seq]"),
        *("--dtype=float16", "--seed", "3", "--", "my model.onnx"),
    ]


def test_what_is_not_given_is_no_argument(runner: Runner) -> None:
    recorded = runner.records("ffn-export")
    runner.run(VERIFY, model="m.onnx")
    reports = str(runner.directory / "temp dir" / "ffn-export")
    words = recorded.read_text().splitlines()
    assert words[-2:] == ["--", "m.onnx"]
    assert [word for word in words[1:-2] if not word.startswith(reports)] == [
        "--json",
        "--junit",
        "--markdown",
        "--sarif",
        "--github",
        "-",
        "--failures",
    ]


@pytest.mark.parametrize("evil", ["$(touch evil)", "`touch evil`", '"; touch evil; "', "*", "--help"])
def test_inputs_are_never_run(evil: str, runner: Runner) -> None:
    recorded = runner.records("ffn-export")
    names = ("model", "against", "inputs", "runtimes", "atol", "baseline", "arguments")
    runner.run(VERIFY, **dict.fromkeys(names, evil))
    assert recorded.read_text().splitlines()[-2:] == ["--", evil]
    assert not (runner.directory / "evil").exists()


@pytest.mark.parametrize(("status", "passed"), [(0, "true"), (1, "false"), (2, ""), (3, "")])
def test_the_status_decides(status: int, passed: str, runner: Runner) -> None:
    runner.records("ffn-export", status)
    job = runner.run(VERIFY, model="m.onnx")
    assert job.status == status
    assert job.outputs["passed"] == passed
    assert job.outputs["status"] == str(status)


def test_results_of_an_earlier_step_are_not_taken_for_those_of_this_one(runner: Runner) -> None:
    stale = runner.directory / "reports" / "parity.md"
    stale.parent.mkdir()
    stale.write_text("passed")
    runner.records("ffn-export", 2)
    assert runner.run(VERIFY, model="m.onnx", report_directory="reports").summary == ""


def test_it_installs_its_own_release_or_what_it_is_told(runner: Runner) -> None:
    recorded = runner.records("python")
    assert runner.run(INSTALL, model="m.onnx").status == 0
    assert recorded.read_text().splitlines() == ["-m", "pip", "install", "--disable-pip-version-check", str(ROOT)]
    recorded.unlink()
    job = runner.run(INSTALL, model="m.onnx", install="touch first\nfalse\ntouch second")
    assert job.status == 1
    assert (runner.directory / "first").exists()
    assert not (runner.directory / "second").exists()
    assert not recorded.exists()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("preset", "status", "passed"),
    [pytest.param("d2l-ffn", 0, "true", marks=pytest.mark.exhaustive), ("d2l-ffn-addnorm", 1, "false")],
)
def test_a_model_is_verified(preset: str, status: int, passed: str, runner: Runner) -> None:
    code = "from ffn_export.cli.main import main; main()"
    runner.command("ffn-export", f'exec {shlex.quote(sys.executable)} -c "{code}" "$@"')
    onnx_file.save(fx.export("d2l-ffn"), runner.directory / "m.onnx")
    job = runner.run(VERIFY, model="m.onnx", against=preset, runtimes="ort-cpu")
    assert job.status == status, job.log
    assert job.outputs["passed"] == passed
    assert json.loads(Path(job.outputs["result"]).read_text())["passed"] is (status == 0)
    assert "<testsuites" in Path(job.outputs["junit"]).read_text()
    assert "d2l-ffn" in job.summary
    (sarif_run,) = json.loads(Path(job.outputs["sarif"]).read_text())["runs"]
    annotated = [line for line in job.log.splitlines() if line.startswith("::error file=m.onnx,")]
    assert len(annotated) == len(sarif_run["results"])
    assert bool(annotated) is (status != 0)
