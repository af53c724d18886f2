"""``--portable-functions`` and the target ``ort-native`` on ``fuse`` and ``build``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.cli.main import run

Capture = pytest.CaptureFixture[str]


def operators(path: Path) -> list[str]:
    return [node.op_type for node in ir.load(path).graph]


def functions(path: Path) -> set[str]:
    return {"::".join((domain, name)) for domain, name, _ in ir.load(path).functions}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "wanted", "defined"),
    [
        (
            ["--target", "ort", "--portable-functions"],
            "SkipLayerNormalization",
            "com.microsoft::SkipLayerNormalization",
        ),
        (["--target", "ort-native"], "FeedForward", "ai.ffn_export::FeedForward"),
    ],
)
def test_fuse(options: list[str], wanted: str, defined: str, tmp_path: Path, capfd: Capture) -> None:
    plain, one, report = tmp_path / "plain.onnx", tmp_path / "one.onnx", tmp_path / "r.json"
    assert run(["export", "d2l-ffn-addnorm", "-o", str(plain), "--quiet"]) == 0
    assert run(["fuse", str(plain), "-o", str(one), *options, "--report", str(report)]) == 0
    said = capfd.readouterr().err
    assert ("nodes of native kernels: 1 FeedForward" in said) == ("ort-native" in options)
    assert wanted in operators(one)
    assert defined in functions(one)
    assert json.loads(report.read_text())["nodes"]["after"] == len(operators(one))
    for runtime in ("ort-cpu", "reference"):
        against = ["--against", "d2l-ffn-addnorm", "--runtime", runtime]
        assert run(["verify", str(one), *against, "--quiet"]) == 0
    again = tmp_path / "again.onnx"
    assert run(["fuse", str(one), "-o", str(again), "--target", "portable", "--quiet"]) == 0
    assert functions(again) == set()


@pytest.mark.slow
def test_build(tmp_path: Path) -> None:
    options = ["--target", "ort", "--portable-functions", "--fast", "--quiet"]
    assert run(["build", "d2l-ffn-addnorm", "-o", str(tmp_path), *options]) == 0
    bundle = tmp_path / "d2l-ffn-addnorm"
    assert "com.microsoft::SkipLayerNormalization" in functions(bundle / "model.onnx")
    assert run(["verify", str(bundle), "--quiet", "--fast"]) == 0
    y = fx.load(bundle).run({"x": np.ones((2, 3, 4), np.float32)})["y"]
    assert np.isfinite(y).all()
