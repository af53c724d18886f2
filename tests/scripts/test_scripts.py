"""The scripts: what they write, and their exit status."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import runpy
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx
from bundle_index import index_entry
from ffn_export.core import onnx_file
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cuda import OrtCuda
from tests.parity import add_norms
from tests.parity.faults.weights import scaled_weight

ROOT = Path(__file__).parents[2]
NAMES = {"d2l-ffn-ort-cpu-float32", "d2l-ffn-ort-cpu-float16"}

Done = subprocess.CompletedProcess[str]


def script(name: str, *arguments: str | Path) -> Done:
    """Run a script in this process: a new one takes seconds to load PyTorch."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = importlib.import_module(name).main(list(map(str, arguments)))
        except SystemExit as stop:
            status = stop.code
    return Done([name, *map(str, arguments)], status, output.getvalue(), errors.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundles with their index."""
    folder = tmp_path_factory.mktemp("exported")
    done = script(
        "export_presets",
        "-o",
        folder,
        "--only",
        "d2l-ffn",
        "--targets",
        "ort-cpu",
        "--dtypes",
        "float32",
        "float16",
        "--no-bench",
        "--jobs",
        "1",
    )
    assert done.returncode == 0, done.stderr
    assert "[2/2]" in done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["export_presets", "verify_parity", "benchmark", "gpu_suite", "false_alarms", "measure_kernels", "mutation"]
)
def test_help_shows_an_example_and_the_exit_status(name: str) -> None:
    done = script(name, "--help")
    assert done.returncode == 0
    assert f"Example: python scripts/{name}.py" in done.stdout
    assert "Exit status: 0" in done.stdout
    assert script(name, "--no-such-option").returncode == 2


@pytest.mark.slow
def test_the_index_lists_every_bundle(folder: Path) -> None:
    entries = {entry["name"]: entry for entry in json.loads((folder / "index.json").read_text())["bundles"]}
    assert set(entries) == NAMES
    for name, entry in entries.items():
        assert entry["error"] is None
        assert (folder / entry["path"] / "manifest.json").is_file()
        assert entry["parity"]["ort-cpu"]["verdict"] == "passed"
        assert entry["parity"]["ort-cpu"]["worst_ulps"] <= entry["parity"]["ort-cpu"]["allowed_ulps"]
        assert entry["nodes"] == 5
        assert entry["bytes"] > 1000
        assert entry["ratio"] == {}
        assert name == f"{entry['preset']}-{entry['target']}-{entry['dtype']}"


@pytest.mark.slow
def test_a_bundle_of_the_script_is_the_one_that_build_makes(folder: Path, tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, dtype="float16", bench_budget=0).directory
    shared = folder / "d2l-ffn-ort-cpu-float16"
    assert (built / "model.onnx").read_bytes() == (shared / "model.onnx").read_bytes()


@pytest.mark.slow
def test_a_build_that_fails_is_reported_and_the_others_go_on(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "out")
    in_the_way = tmp_path / "out" / "d2l-addnorm-ort-cpu-float32"
    in_the_way.write_text("no bundle")
    done = script(
        "export_presets",
        "-o",
        tmp_path / "out",
        "--only",
        "d2l-addnorm",
        "--targets",
        "portable",
        "ort-cpu",
        "--dtypes",
        "float32",
        "--jobs",
        "1",
        "--bench",
        "*",
    )
    assert done.returncode == 1
    assert f"FAILED {in_the_way.name}: {in_the_way} is in the way" in done.stderr
    entries = {e["name"]: e for e in json.loads((tmp_path / "out" / "index.json").read_text())["bundles"]}
    assert set(entries) == NAMES | {in_the_way.name, "d2l-addnorm-portable-float32"}
    assert "is in the way" in entries[in_the_way.name]["error"]
    assert done.stderr.splitlines()[-1].startswith("1 built, 1 failed")
    told = entries["d2l-addnorm-portable-float32"]["ratio"].get("ort-cpu", {})  # nothing where it is inconclusive
    assert all(ratio > 0 for ratio in told.values())


def test_a_misspelt_preset_is_bad_usage() -> None:
    done = script("export_presets", "--only", "d2l-fnn")
    assert done.returncode == 2
    assert "did you mean 'd2l-ffn'?" in done.stderr


@pytest.mark.slow
def test_parity_of_a_folder_is_one_junit_file(folder: Path, tmp_path: Path) -> None:
    done = script("verify_parity", folder, "--junit", tmp_path / "parity.xml")
    assert done.returncode == 0, done.stderr
    for name in NAMES:
        assert name in done.stdout
    root = ET.parse(tmp_path / "parity.xml").getroot()
    assert root.attrib["failures"] == "0"
    assert {suite.attrib["name"].partition(":")[0] for suite in root} == NAMES


@pytest.mark.slow
def test_a_warned_bundle_passes_and_says_so(tmp_path: Path) -> None:
    spec = "tests.parity.add_norms:layer_norm"
    built = fx.build(spec, add_norms.INPUTS, directory=tmp_path, target="ort", bench_budget=0, seed=4)
    assert built.manifest is not None
    found = built.manifest.parity["runtimes"]["ort-cpu"]
    assert found["warned"] >= 1
    assert found["warned_factor"] > 1
    entry = index_entry("add-norm", spec, "ort", "float32", built)
    assert entry.parity["ort-cpu"]["verdict"] == "warned"
    assert any("times what is allowed" in warning for warning in entry.warnings)
    done = script("verify_parity", "--trust", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 passed (1 of them warned), 0 failed" in done.stderr


@pytest.mark.slow
def test_a_fault_in_one_bundle_fails_the_folder(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "out")
    model = onnx_file.load(tmp_path / "out" / "d2l-ffn-ort-cpu-float32" / "model.onnx")
    scaled_weight(1.01)(model)
    onnx_file.save(model, tmp_path / "out" / "d2l-ffn-ort-cpu-float32" / "model.onnx")
    done = script("verify_parity", tmp_path / "out", "--junit", tmp_path / "parity.xml")
    assert done.returncode == 1
    assert "1 passed, 1 failed" in done.stderr
    (failed,) = [suite for suite in ET.parse(tmp_path / "parity.xml").getroot() if int(suite.attrib["failures"])]
    assert failed.attrib["name"].startswith("d2l-ffn-ort-cpu-float32")


def test_a_folder_without_bundles_is_bad_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script("verify_parity", tmp_path / "gone").returncode == 2
    program = str(ROOT / "scripts" / "verify_parity.py")
    monkeypatch.setattr(sys, "argv", [program, str(tmp_path)])
    with pytest.raises(SystemExit) as stop:  # as CI runs it
        runpy.run_path(program, run_name="__main__")
    assert stop.value.code == 2


@pytest.mark.skipif(OrtCuda().unavailable(Artifact(Path("any.onnx"))) is None, reason="there is a GPU here")
def test_the_gpu_suite_says_in_one_line_that_there_is_no_gpu(tmp_path: Path) -> None:
    done = script("gpu_suite", "--only", "d2l-ffn", "--json", tmp_path / "gpu.json")
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpu_suite: runtime 'ort-cuda' is not available here: ")
    assert not (tmp_path / "gpu.json").exists()


@pytest.mark.slow
def test_what_is_right_raises_no_alarm(tmp_path: Path) -> None:
    done = script(
        "false_alarms", "--only", "d2l-ffn-addnorm", "--targets", "ort", "--seeds", "2", "--json", tmp_path / "r.json"
    )
    assert done.returncode == 0, done.stdout
    counts = json.loads((tmp_path / "r.json").read_text())["cases"]
    assert counts["passed"] + counts.get("warned", 0) == 2 * 22
    assert "failed" not in counts
    assert counts["asked"] == 2 * 9


@pytest.mark.slow
def test_the_cost_of_row_scales_is_measured_and_fitted() -> None:
    done = script("row_scale_cost", "--seconds", "0.01")
    *costs, fit = done.stdout.splitlines()
    assert done.returncode == 0
    assert [line.split(":")[0] for line in costs[:2]] == ["384 x 1152", "384 x 1536"]
    d_in, d_out = np.array([line.split(":")[0].split(" x ") for line in costs], float).T
    per_column, per_channel = (float(part.split()[-1]) for part in fit.split(","))
    residual = np.array([float(line.split()[-1]) for line in costs]) - (per_column / d_in + per_channel / d_out)
    # The fit is stationary: no change of a constant lowers the squared error. Printed costs are rounded to 0.01.
    assert abs(residual @ (1 / d_in)) < 1e-4
    assert abs(residual @ (1 / d_out)) < 1e-4


def test_the_cost_of_row_scales_wants_seconds() -> None:
    done = script("row_scale_cost", "--seconds", "-1")
    assert done.returncode == 2
    assert "-1" in done.stderr
