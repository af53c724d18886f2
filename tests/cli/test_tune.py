"""``ffn-export tune``: a SPEC becomes a bundle, a bundle is built again, a model gets its form; all with evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import ffn_export as fx
from executed import executed_kernels
from ffn_export.bundle.manifest import read_manifest
from ffn_export.cli.main import run
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.result import TuningResult
from tests.tuning.planted import Clock, loading

Planted = Callable[[Callable[[Choice], bool]], None]
Capture = pytest.CaptureFixture[str]
QUICK = ["--seconds", "0.02", "--tokens", "64", "--threads", "1"]


@pytest.fixture
def planted(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Have the choices that are named take four times as long."""

    def plant(is_slow: Callable[[Choice], bool]) -> None:
        load = loading(is_slow, clock.sleep)
        monkeypatch.setattr("ffn_export.tuning.search.loader", lambda runtime, threads: load)

    return plant


@pytest.mark.slow
def test_a_bundle_keeps_choice_and_evidence(tmp_path: Path, capfd: Capture, planted: Planted) -> None:
    planted(lambda choice: choice.settings.graph_optimization_level == "basic")
    assert run(["tune", "d2l-ffn", "-o", str(tmp_path), "--json", str(tmp_path / "t.json"), *QUICK]) == 0
    bundle = tmp_path / "d2l-ffn"
    manifest = read_manifest(bundle)
    evidence = TuningResult.from_dict(json.loads((bundle / "tuning.json").read_text()))
    assert json.loads((tmp_path / "t.json").read_text()) == json.loads((bundle / "tuning.json").read_text())
    assert manifest.tuning is not None
    assert (manifest.tuning["left_default"], manifest.tuning["tokens"]) == (True, [64])
    assert manifest.session_options == evidence.chosen.settings
    assert manifest.session_options.graph_optimization_level == "all"
    assert "chosen: session options graph_optimization_level=all" in capfd.readouterr().err.replace("\n", " ")
    assert "Tuning" in (bundle / "report.html").read_text()
    assert run(["verify", str(bundle), "--quiet"]) == 0
    y = fx.load(bundle).run({"x": np.ones((2, 3, 4), np.float32)})["y"]
    assert np.isfinite(y).all()


@pytest.mark.slow
def test_arrays_of_a_half_precision_are_given_in_float32(tmp_path: Path, capfd: Capture, planted: Planted) -> None:
    planted(lambda choice: False)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3, 4), np.float32))
    arrays = ["--dtype", "float16", "--samples", str(tmp_path / "x.npz"), "--seed", "7"]
    assert run(["tune", "d2l-ffn", "-o", str(tmp_path), *arrays, *QUICK, "--quiet"]) == 0
    page = (tmp_path / "d2l-ffn" / "report.html").read_text()
    assert "--dtype float16 --seed 7 --tokens 64" in page
    assert "ffn-export verify exported/d2l-ffn" in page


@pytest.mark.slow
def test_a_bundle_is_built_again_in_its_place(tmp_path: Path, planted: Planted) -> None:
    planted(lambda choice: False)
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), "--seed", "5", "--quiet"]) == 0
    assert read_manifest(tmp_path / "d2l-ffn").tuning is None
    assert run(["tune", str(tmp_path / "d2l-ffn"), "--quiet", *QUICK]) == 0
    manifest = read_manifest(tmp_path / "d2l-ffn")
    assert manifest.tuning is not None
    assert manifest.source["spec"] == "d2l-ffn"
    assert "--seed 5" in (tmp_path / "d2l-ffn" / "report.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["d2l-ffn"]


@pytest.mark.slow
def test_a_failed_gate_leaves_the_evidence(tmp_path: Path, planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(lambda choice: False)
    monkeypatch.setattr("ffn_export.bundle.build.fusion_failures", lambda report, wanted: ("planted",))
    words = ["tune", "d2l-ffn", "-o", str(tmp_path / "out"), "--json", str(tmp_path / "t.json"), "--quiet", *QUICK]
    assert run(words) == 1
    assert not (tmp_path / "out" / "d2l-ffn").exists()
    assert TuningResult.from_dict(json.loads((tmp_path / "t.json").read_text())).trials


def function_domains(bundle: Path) -> set[str]:
    return {function.domain for function in onnx_file.load(bundle / "model.onnx").functions.values()}


@pytest.mark.slow
def test_a_bundle_keeps_its_functions(tmp_path: Path, planted: Planted) -> None:
    planted(lambda choice: False)
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), "--quiet", "--fast", "--portable-functions"]) == 0
    before = function_domains(tmp_path / "d2l-ffn")
    assert run(["tune", str(tmp_path / "d2l-ffn"), "--quiet", *QUICK]) == 0
    assert function_domains(tmp_path / "d2l-ffn") == before


def test_native_kernels_and_few_bits_exclude_each_other(tmp_path: Path, capfd: Capture) -> None:
    for words in (["build", "d2l-ffn", "--bits", "8"], ["build", "d2l-ffn", "--bits", "4", "--all"]):
        assert run([*words, "--target", "ort-native", "-o", str(tmp_path)]) == 2
        assert "take --precision int8 in place of --bits and --int8" in capfd.readouterr().err
    with pytest.raises(UsageError, match="portable has one form of each site, so nothing to tune"):
        fx.build("d2l-ffn", directory=tmp_path, target="portable", tuning=fx.TuneOptions(budget=0.02))
    assert run(["build", "d2l-ffn", "--budget", "0.5", "-o", str(tmp_path)]) == 2
    assert "--budget is about quantizing: give --bits 8, --bits 4 or --int8 beside it" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_options_that_another_kind_of_argument_takes(bundle: Path, capfd: Capture) -> None:
    assert run(["tune", str(bundle / "model.onnx"), "--opset", "19"]) == 2
    assert "--opset is for a SPEC, which is exported first: leave it out for a model" in capfd.readouterr().err
    assert run(["tune", str(bundle), "--target", "ort-cuda"]) == 2
    assert "--target is for a SPEC, which is exported first: leave it out for a bundle" in capfd.readouterr().err


@pytest.mark.slow
def test_a_bundle_whose_target_has_one_form_says_what_makes_another(tmp_path: Path, capfd: Capture) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, target="portable", bench_budget=0)
    assert run(["tune", str(built.directory)]) == 2
    assert "nothing to tune: ffn-export tune d2l-ffn makes one for ort-cpu" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["tune", "bench", "quantize", "verify"])
def test_a_result_that_could_not_be_written_is_refused_before_any_work(
    bundle: Path, tmp_path: Path, capfd: Capture, command: str
) -> None:
    output = ["-o", str(tmp_path / "m.onnx")] if command in ("tune", "quantize") else []
    assert run([command, str(bundle / "model.onnx"), *output, "--json", str(tmp_path)]) == 2
    said = capfd.readouterr().err
    assert said == f"ffn-export: cannot write {tmp_path}: Is a directory\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_runs_is_what_was_chosen(tmp_path: Path, planted: Planted) -> None:
    planted(lambda choice: "row-chunks" not in choice.forms)
    assert run(["tune", "d2l-ffn", "-o", str(tmp_path), "--quiet", *QUICK, "--tokens", "768"]) == 0
    bundle = tmp_path / "d2l-ffn"
    feeds = {"x": np.ones((2, 3, 4), np.float32)}
    ran = executed_kernels(bundle / "model.onnx", read_manifest(bundle).session_options, feeds)
    operators = [kernel.operator for kernel in ran]
    assert "Loop" in operators
    assert "Loop" in {node.op_type for node in onnx_file.load(bundle / "model.onnx").graph}


@pytest.mark.slow
def test_a_model_is_written_and_its_options_are_said(tmp_path: Path, capfd: Capture, planted: Planted) -> None:
    planted(lambda choice: False)
    source, tuned = tmp_path / "m.onnx", tmp_path / "t.onnx"
    onnx_file.save(fx.export("d2l-ffn"), source)
    assert run(["tune", str(source), "-o", str(tuned), *QUICK]) == 0
    onnx.checker.check_model(str(tuned))
    assert "session options: graph_optimization_level=" in capfd.readouterr().err
    assert run(["tune", str(source), "-o", str(tmp_path), *QUICK]) == 2
    assert "is a directory: name the ONNX file to write" in capfd.readouterr().err


@pytest.mark.slow
def test_a_module_that_only_its_program_has(tmp_path: Path, capfd: Capture) -> None:
    fx.build(fx.create("d2l-ffn"), {"x": "float32[batch,seq,4]"}, directory=tmp_path, name="own", bench_budget=0)
    assert run(["tune", str(tmp_path / "own"), *QUICK]) == 2
    assert "was built from a module that only its program has" in capfd.readouterr().err


@pytest.mark.slow
def test_weights_in_few_bits_are_not_tuned_again(tmp_path: Path, capfd: Capture) -> None:
    fx.build("d2l-ffn-addnorm", directory=tmp_path, quantization=fx.QuantizationOptions(), budget=0.05, bench_budget=0)
    assert run(["tune", str(tmp_path / "d2l-ffn-addnorm"), *QUICK]) == 2
    assert "is quantized already" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["bert-fnn"], 2, "did you mean 'bert-ffn'"),
        (["missing.onnx"], 2, "no such file: missing.onnx"),
        (["d2l-ffn", "--target", "portable"], 2, "portable has one form of each site"),
        (["d2l-ffn", "--tokens", "0"], 2, "0 is not in the range"),
        (["d2l-ffn", "--budget", "0"], 2, "0.0 is not in the range"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "--quiet", *arguments]) == status
    (error,) = capfd.readouterr().err.splitlines()
    assert line in error
    assert list(tmp_path.iterdir()) == []
