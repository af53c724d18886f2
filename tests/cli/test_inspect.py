from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest

from ffn_export.cli.main import run

Capture = pytest.CaptureFixture[str]


def test_inspect_prints_to_standard_output(bundle: Path, capfd: Capture) -> None:
    assert run(["inspect", str(bundle)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    for words in (
        "x:float32[batch,seq,4]",
        "LayerNormalization",
        "feed_forward",
        "residual_norm:0",
        "kept",
        "fused for ort-cpu",
    ):
        assert words in out


def test_json_takes_the_place_of_the_tables(bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    assert run(["inspect", str(bundle / "model.onnx"), "--target", "portable", "--json", "-"]) == 0
    assert json.loads(capfd.readouterr().out)["target"] == "portable"
    assert run(["inspect", str(bundle), "--json", str(tmp_path / "i.json")]) == 0
    assert "feed_forward:0" in capfd.readouterr().out
    assert json.loads((tmp_path / "i.json").read_text())["weights_bytes"] == 336


def test_a_model_that_onnxruntime_refuses_is_inspected(bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    proto = onnx.load(bundle / "model.onnx")
    proto.graph.node[0].op_type = "NoSuchOperator"
    proto.ir_version = 999
    onnx.save(proto, tmp_path / "odd.onnx")
    assert run(["inspect", str(tmp_path / "odd.onnx")]) == 0
    assert "NoSuchOperator" in capfd.readouterr().out


def test_bad_input_is_one_line(bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    assert run(["inspect", str(tmp_path)]) == 2
    assert "is no bundle" in capfd.readouterr().err
    assert run(["inspect", str(bundle), "--target", "ort-cup"]) == 2
    assert "did you mean 'ort-cpu'?" in capfd.readouterr().err
    broken = tmp_path / "broken"
    shutil.copytree(bundle, broken)
    (broken / "model.onnx").unlink()
    assert run(["inspect", str(broken)]) == 2
    assert "no such file" in capfd.readouterr().err
