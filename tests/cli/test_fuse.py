"""``ffn-export fuse``: the output is written whatever the check finds, and the line that says what it found."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from ffn_export.cli.main import run
from ffn_export.fusion_check import check
from tests.fusion.graphs import model

Capture = pytest.CaptureFixture[str]

SILU = "s = Sigmoid(x) y = Mul(x, s)"


def saved(tmp_path: Path, of: ir.Model) -> str:
    ir.save(of, tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_what_was_compared_is_told(tmp_path: Path, capfd: Capture) -> None:
    assert run(["fuse", saved(tmp_path, model(SILU)), "-o", str(tmp_path / "f.onnx")]) == 0
    said = " ".join(capfd.readouterr().err.split())
    assert "fused graph run against the model: passed (worst difference " in said
    assert "batch,seq 2x3 1x1 1x3 6x7" in said


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [("float[2,8] x", "my:Unknown"), ("float[2,8] x, string[2] t", "input 't' is of string, which is not drawn")],
)
def test_what_cannot_run_is_written_all_the_same(tmp_path: Path, capfd: Capture, inputs: str, reason: str) -> None:
    body = SILU + (" z = my.Unknown(y)" if "string" not in inputs else " z = Neg(y)")
    of = model(body, inputs=inputs, outputs="float[2,8] z", domains=["my"])
    report = tmp_path / "r.json"
    assert run(["fuse", saved(tmp_path, of), "-o", str(tmp_path / "f.onnx"), "--report", str(report)]) == 0
    assert "fused graph run against the model: not checked (" in capfd.readouterr().err
    assert onnx.load(tmp_path / "f.onnx").graph.node[0].op_type == "QuickGelu"
    written = json.loads(report.read_text())["check"]
    assert written["status"] == "not checked"
    assert reason in written["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fuse", "build"])
def test_no_check(tmp_path: Path, capfd: Capture, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "Trial", None)
    spec = saved(tmp_path, model(SILU)) if command == "fuse" else "d2l-ffn"
    assert run([command, spec, "-o", str(tmp_path / "out"), "--no-check"]) == 0
    assert "not checked (it was not asked for)" in capfd.readouterr().err


def test_requirement_lists_what_is_missing(tmp_path: Path, capfd: Capture) -> None:
    of = model("r = Add(x, s) s = Sigmoid(x) y = LayerNormalization(r, g)", "float[8] g = {1,1,1,1,1,1,1,1}")
    arguments = ["fuse", saved(tmp_path, of), "-o", str(tmp_path / "f.onnx"), "--require-fusion", "residual_norm=1"]
    assert run(arguments) == 1
    *_, first, second = capfd.readouterr().err.splitlines()
    assert first == "ffn-export: 0 of 1 residual_norm sites are in the target's form, 1 required"
    assert second.startswith("ffn-export: residual_norm:0 is kept, LayerNormalization: one kernel")


@pytest.mark.slow
def test_build_lists_what_is_missing_too(tmp_path: Path, capfd: Capture) -> None:
    arguments = ["build", "d2l-ffn-addnorm", "-o", str(tmp_path), "--require-fusion", "residual_norm=2"]
    assert run(arguments) == 1
    lines = capfd.readouterr().err.splitlines()
    assert any(line.startswith("ffn-export: residual_norm:0 is kept, ") for line in lines)
    said = "0 of 1 residual_norm sites are in the target's form"
    assert lines[-1].startswith(f"ffn-export: d2l-ffn-addnorm was not built: {said}")


def test_a_directory_made_for_an_output_stays_only_if_something_is_written(tmp_path: Path, capfd: Capture) -> None:
    source, new = saved(tmp_path, model(SILU)), tmp_path / "a b"
    assert run(["quantize", source, "-o", str(new / "é" / "q.onnx")]) == 2
    assert "nothing to quantize" in (said := capfd.readouterr().err)
    assert "made the directory" not in said
    assert not new.exists()
    assert run(["fuse", source, "-o", str(new / "é" / "f.onnx")]) == 0
    assert "made the directory" in capfd.readouterr().err
    assert (new / "é" / "f.onnx").exists()
