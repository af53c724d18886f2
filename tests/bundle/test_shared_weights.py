"""Processes that load one bundle share the pages of its weights, if it was built for that."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.errors import UsageError
from shared_weights import measure
from tests.bundle.processors import on_another_processor

PROCESSES = 4


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages processes share: smaps_rollup")
def test_processes_share_the_pages_of_the_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(1000, 5000), nn.GELU(), nn.Linear(5000, 1000)).eval()  # 40 MB
    options = {"inputs": {"x": "float32[batch,seq,1000]"}, "directory": tmp_path, "fast": True}
    shared = fx.build(module, name="shared", share_weights=True, **options).directory  # type: ignore[arg-type]
    packed = fx.build(module, name="packed", **options).directory  # type: ignore[arg-type]
    joined = tmp_path / "joined"
    fx.join([shared, on_another_processor(shared, tmp_path / "there")], joined, fast=True)
    for bundle, processes in ((shared, PROCESSES), (joined, 2)):
        found = measure(bundle, processes, timed=False)
        assert found["resident"] > 40, "the weights are there"
        assert found["shared"] > 40, "in pages that the processes share"
        assert found["private"] < 15, "and nowhere else"
        assert found["proportional"] < 40 / processes + 15
    assert measure(packed, 1, timed=False)["private"] > 40, "the session has packed copies"


@pytest.mark.integration
def test_the_bundle_says_how_it_was_verified(tmp_path: Path) -> None:
    built = fx.build("transformer-base", directory=tmp_path, share_weights=True, fast=True)
    assert built.manifest is not None
    assert built.manifest.session_options.config_entries["session.disable_prepacking"] == "1"
    weights = onnx.load(built.directory / "model.onnx", load_external_data=False).graph.initializer
    assert any(weight.data_location == onnx.TensorProto.EXTERNAL for weight in weights)
    assert "model.onnx.data" in built.manifest.files
    assert "--share-weights" in (built.directory / "report.html").read_text()


def test_what_copies_weights_anyway_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), "--target", "ort-native", "--share-weights"]) == 2
    assert "the kernels of ort-native copy all weights: leave --share-weights out" in capsys.readouterr().err
    with pytest.raises(UsageError, match="tuning chooses the session options: leave share_weights out"):
        fx.build("d2l-ffn", directory=tmp_path, share_weights=True, tuning=fx.TuneOptions())
