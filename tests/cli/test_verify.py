"""``verify``: what is declared, kept, replayed and judged again."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.core import onnx_file, vectors
from ffn_export.latency.result import LatencyResult
from ffn_export.runtimes.ort_cpu import OrtCpu

Capture = pytest.CaptureFixture[str]
SPEC = "d2l-ffn-addnorm"


@pytest.fixture
def broken(fused_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with another activation."""
    path = fused_file(SPEC, "portable")
    model = onnx_file.load(path)
    next(node for node in model.graph if node.op_type == "Relu").op_type = "LeakyRelu"
    target = tmp_path / "broken.onnx"
    onnx_file.save(model, target)
    monkeypatch.chdir(tmp_path)
    return target


def verify(*arguments: str | Path) -> int:
    return run(["verify", *map(str, arguments)])


@pytest.mark.slow
def test_a_failing_case_is_kept_and_replayed_by_the_command_that_is_printed(broken: Path, capfd: Capture) -> None:
    assert verify(broken, "--against", SPEC, "--json", "r.json", "--runtime", "ort-cpu") == 1
    replays = [line for line in capfd.readouterr().err.splitlines() if line.startswith("replay ")]
    assert len(replays) == 3
    command = shlex.split(replays[0].partition(": ")[2])
    assert command[0] == "ffn-export"
    assert "--json" not in command
    assert command[1:3] == ["verify", "--load-inputs"]  # what stands behind a bare -- is no option
    saved = Path(command[3])
    assert sorted(path.name for path in saved.iterdir()) == ["input_0.pb", "output_0.pb"]
    assert str(saved) in [case["saved"] for case in json.loads(Path("r.json").read_text())["cases"]]
    assert run(command[1:]) == 1
    assert "given inputs" in capfd.readouterr().err


@pytest.mark.slow
def test_what_was_judged_again_is_replayed_on_the_model_that_it_is_of(broken: Path, capfd: Capture) -> None:
    assert verify(broken, "--against", SPEC, "--json", "r.json", "--runtime", "ort-cpu", "--quiet") == 1
    capfd.readouterr()
    assert verify("--rejudge", "r.json", "--atol", "1e-9") == 1
    replays = [line for line in capfd.readouterr().err.splitlines() if line.startswith("replay ")]
    assert len(replays) == 3
    command = shlex.split(replays[0].partition(": ")[2])
    assert "--rejudge" not in command
    assert command[command.index("--against") + 1] == SPEC
    assert command[-2:] == ["--atol", "1e-9"]
    assert run(command[1:]) == 1
    assert "given inputs" in capfd.readouterr().err
    assert verify(*command[2:], "--rejudge", "r.json") == 2
    assert verify("--rejudge", "r.json", "--load-inputs", command[3]) == 2
    assert "--rejudge runs nothing and takes no inputs: leave one of both out" in capfd.readouterr().err


def test_a_directory_that_cannot_be_written_costs_no_verdict(broken: Path, capfd: Capture) -> None:
    Path("taken").write_text("a file")
    assert verify(broken, "--against", SPEC, "--failures", "taken", "--runtime", "ort-cpu") == 1
    error = capfd.readouterr().err
    assert "failing inputs are not kept: taken/broken cannot be written to" in error
    assert "replay" not in error


def test_a_passing_model_leaves_nothing_behind(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert verify(bundle, "--quiet") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_stored_result_is_judged_again_without_running(broken: Path, bundle: Path, capfd: Capture) -> None:
    assert verify(broken, "--against", SPEC, "--json", "r.json", "--quiet") == 1
    broken.unlink()
    assert verify("--rejudge", "r.json", "--atol", "10", "--json", "again.json") == 0
    assert verify("--rejudge", "again.json", "--quiet") == 1
    assert verify("--rejudge", "r.json", "--atol", "y=10", "--quiet") == 0
    assert verify("--rejudge", "r.json", "--budget", "10", "--quiet") == 0
    assert verify("--rejudge", bundle, "--quiet") == 0
    assert "10" in capfd.readouterr().err
    assert verify("--rejudge", "r.json", "--atol", "other=10", "--quiet") == 2
    assert "no output is called 'other'; they are y" in capfd.readouterr().err


@pytest.mark.slow
def test_declared_tolerances_decide(bundle: Path, capfd: Capture) -> None:
    assert verify(bundle, "--atol", "1e-5", "--rtol", "1e-5", "--quiet") == 0
    assert verify(bundle, "--rtol", "1e-12", "--failures", bundle.parent / "failures", "--quiet") == 1
    assert "times what is allowed (atol 0, rtol 1e-12)" in capfd.readouterr().err
    assert verify(bundle, "--budget", "1e-5", "--quiet") == 0


@pytest.mark.slow
def test_vectors_say_nothing_of_other_inputs(tmp_path: Path, capfd: Capture) -> None:
    module = torch.nn.Linear(4, 4).eval()
    built = fx.build(module, {"x": "float32[batch,4]"}, directory=tmp_path, name="own", bench_budget=0)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 4), np.float32))
    assert verify(built.directory, "--samples", tmp_path / "x.npz") == 2
    assert "test vectors say nothing of other inputs" in capfd.readouterr().err
    assert verify(built.directory, "--load-inputs", built.directory / "test_data_set_0", "--quiet") == 0


def test_inputs_of_another_model_do_not_stay_beside_its_own(tmp_path: Path) -> None:
    arrays = {"x": np.ones(2, np.float32), "y": np.zeros(3, np.float32)}
    vectors.write(tmp_path, arrays, {})
    vectors.write(tmp_path, {"x": arrays["x"]}, {})
    assert list(vectors.read_inputs(tmp_path / vectors.DIRECTORY)) == ["x"]


def test_inputs_are_read_from_a_file_or_from_vectors(bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3, 4), np.float32))
    assert verify(bundle, "--load-inputs", tmp_path / "x.npz") == 0
    assert "(1 of 1)" in capfd.readouterr().err
    assert verify(bundle, "--load-inputs", bundle / "test_data_set_0") == 0
    assert "(1 of 1)" in capfd.readouterr().err


def test_outputs_are_kept(bundle: Path, tmp_path: Path) -> None:
    kept = tmp_path / "outputs"
    assert verify(bundle, "--save-outputs", kept, "--runtime", "ort-cpu", "--jobs", "2", "--quiet") == 0
    case = kept / "batch=3,seq=5-normal"
    assert sorted(path.name for path in case.iterdir()) == ["inputs.npz", "oracle.npz", "ort-cpu.npz"]
    with np.load(case / "oracle.npz") as oracle, np.load(case / "ort-cpu.npz") as actual:
        assert np.abs(oracle["y"] - actual["y"]).max() < 1e-6


@pytest.mark.slow
def test_a_seed_draws_other_inputs_and_the_bundle_keeps_its_weights(bundle: Path) -> None:
    assert verify(bundle, "--input-seed", "7", "--quiet") == 0
    assert verify(bundle, "--seed", "7", "--quiet") == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what to verify"),
        (("m.onnx", "--rejudge", "r.json"), "leave one of both out"),
        (("--rejudge", "missing.json"), "no such file: missing.json"),
        (("--rejudge", "text.json"), "text.json is no JSON"),
        (("--rejudge", "list.json"), "list.json is no result of `ffn-export verify --json`"),
        (("--rejudge", "other.json"), "this is no parity result of format 2"),
        (("--rejudge", "half.json"), "half.json is damaged: Object missing required field"),
        (("--rejudge", "timing.json"), "timing.json holds no verification"),
        (("--rejudge", "r.json", "--runtime", "ort-cpu"), "--rejudge runs nothing, --runtime is about a run"),
        (("--rejudge", "r.json", "--fast"), "--rejudge runs nothing, --fast is about a run"),
        (("--rejudge", "r.json", "--against", "d2l-ffn"), "--rejudge runs nothing, --against is about a run"),
        (("m.onnx", "--atol", "y=often"), "--atol y=often: write a number"),
        (("m.onnx", "--rtol", "-1"), "--rtol -1: write a number"),
        (("m.onnx", "--load-inputs", "."), "holds no input vectors"),
        (("m.onnx", "--load-inputs", "x.npz", "--samples", "x.npz"), "leave one of both out"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.json").write_text("not json")
    Path("list.json").write_text("[]")
    Path("other.json").write_text('{"format": 0, "cases": []}')
    Path("half.json").write_text('{"format": 2, "cases": []}')
    Path("timing.json").write_text(json.dumps(LatencyResult("m.onnx", "torch", ()).to_dict()))
    assert verify(*arguments) == 2
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert line.startswith("ffn-export: ")
    assert said in line


def test_a_runtime_that_is_not_here_is_a_failed_test(
    bundle: Path, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which runtimes a machine lacks, no test knows: one is taken away."""
    monkeypatch.setattr(OrtCpu, "unavailable", lambda self, artifact: "it was taken away")
    junit = tmp_path / "parity.xml"
    assert verify(bundle / "model.onnx", "--against", SPEC, "--runtime", "ort-cpu", "--junit", junit) == 3
    assert "it was taken away" in capfd.readouterr().err
    (suite,) = ET.parse(junit).getroot().iter("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "it was taken away" in junit.read_text()
