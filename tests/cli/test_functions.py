"""``--outline`` and ``--portable-functions`` on ``fuse`` and ``build``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.cli.main import run

OPTIONS = ["--target", "ort", "--outline", "--portable-functions"]


def operators(path: Path) -> list[str]:
    return [node.op_type for node in ir.load(path).graph]


def functions(path: Path) -> set[str]:
    return {"::".join((domain, name)) for domain, name, _ in ir.load(path).functions}


@pytest.mark.slow
def test_fuse(tmp_path: Path) -> None:
    plain, one = tmp_path / "plain.onnx", tmp_path / "one.onnx"
    assert run(["export", "d2l-ffn-addnorm", "-o", str(plain), "--quiet"]) == 0
    report = tmp_path / "r.json"
    assert run(["fuse", str(plain), "-o", str(one), *OPTIONS, "--report", str(report), "--quiet"]) == 0
    assert operators(one) == ["FeedForward", "SkipLayerNormalization"]
    assert functions(one) == {"ai.ffn_export::FeedForward", "com.microsoft::SkipLayerNormalization"}
    assert json.loads(report.read_text())["nodes"]["after"] == 2
    for runtime in ("ort-cpu", "reference"):
        against = ["--against", "d2l-ffn-addnorm", "--runtime", runtime]
        assert run(["verify", str(one), *against, "--quiet"]) == 0
    again = tmp_path / "again.onnx"
    assert run(["fuse", str(one), "-o", str(again), "--target", "portable", "--quiet"]) == 0
    assert functions(again) == set()


@pytest.mark.slow
def test_build(tmp_path: Path) -> None:
    assert run(["build", "d2l-ffn-addnorm", "-o", str(tmp_path), *OPTIONS, "--quiet"]) == 0
    bundle = tmp_path / "d2l-ffn-addnorm"
    assert operators(bundle / "model.onnx") == ["FeedForward", "SkipLayerNormalization"]
    assert run(["verify", str(bundle), "--quiet"]) == 0
    y = fx.load(bundle).run({"x": np.ones((2, 3, 4), np.float32)})["y"]
    assert np.isfinite(y).all()


@pytest.mark.slow
def test_api(tmp_path: Path) -> None:
    model = fx.export("d2l-ffn")
    fused, report = fx.fuse(model, target="ort", outline=True, portable_functions=True)
    assert [node.op_type for node in fused.graph] == ["FeedForward"]
    assert report.count("feed_forward") == 1
