from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ffn_export.cli.main import run
from ffn_export.core import onnx_file
from tests.parity.faults.weights import scaled_weight

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def faulty(bundle: Path, tmp_path: Path) -> Path:
    """The same bundle with one weight scaled."""
    copy = tmp_path / "faulty"
    shutil.copytree(bundle, copy)
    model = onnx_file.load(copy / "model.onnx")
    scaled_weight(2.0)(model)
    onnx_file.save(model, copy / "model.onnx")
    return copy


def test_differences_go_to_standard_output_and_are_no_failure(bundle: Path, faulty: Path, capfd: Capture) -> None:
    assert run(["diff", str(bundle), str(faulty)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    for words in ("the models differ", "weights: 5 equal, 1 changed", "val_", "median, ort-cpu at", "worst error"):
        assert words in out


def test_exit_code_follows_git(bundle: Path, faulty: Path, capfd: Capture) -> None:
    assert run(["diff", str(bundle), str(faulty / "model.onnx"), "--exit-code"]) == 1
    assert run(["diff", str(bundle), str(bundle), "--exit-code"]) == 0
    assert "the models are the same" in capfd.readouterr().out
    assert run(["diff", str(bundle), str(faulty / "gone.onnx"), "--exit-code"]) == 2
    assert run(["diff", str(bundle), str(faulty.parent), "--exit-code"]) == 2


def test_json(bundle: Path, faulty: Path, capfd: Capture) -> None:
    assert run(["diff", str(bundle), str(faulty), "--json", "-"]) == 0
    data = json.loads(capfd.readouterr().out)
    assert data["differs"] is True
    assert data["a"]["model"] == str(bundle)
    assert data["b"]["parity"]["passed"] is True
