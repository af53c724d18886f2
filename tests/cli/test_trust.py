"""Nothing that a file names is run: bundles whose manifests name code, and ``.pt2`` files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.bundle.manifest import read_manifest
from ffn_export.errors import IntegrityError, UsageError
from ffn_export.verbs.tune import tune_bundle
from tests.exporter.helpers import refusal

PAYLOAD = "import pathlib\npathlib.Path('ran').touch()\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("exported"), bench_budget=0).directory


@pytest.fixture
def bundle(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Copy a bundle with changes in its manifest, into a directory of files that run when they are imported."""
    monkeypatch.chdir(tmp_path)
    for name in ("payload", "rich", "onnx", "jsonschema"):
        Path(f"{name}.py").write_text(PAYLOAD)

    def changed(**changes: Any) -> Path:
        copy = tmp_path / "b"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(built, copy)
        manifest = json.loads((copy / "manifest.json").read_text())
        for key, value in changes.items():
            manifest[key] = {**manifest[key], **value} if isinstance(value, dict) else value
        (copy / "manifest.json").write_text(json.dumps(manifest))
        return copy

    return changed


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as its console script does: the current directory is not importable at first."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    root = str(Path(fx.__file__).parents[1])
    start = f"import sys; sys.path[0] = {root!r}; from ffn_export.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", start, *words], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["factory", "preset", "hugging_face", "exported_program"])
@pytest.mark.parametrize("spec", ["payload:make", "b/payload.pt2", "hf:b"])
def test_a_source_that_a_manifest_names_is_not_imported(bundle: Callable[..., Path], spec: str, kind: str) -> None:
    directory = bundle(source={"spec": spec, "kind": kind})
    (directory / "payload.pt2").write_text("")
    result = fx.verify(directory, runtimes=["ort-cpu"])
    assert result.passed
    assert any(f"names '{spec}' as its source, and nothing that a file names is imported" in n for n in result.notes)
    assert "add trust=True" in refusal(UsageError, tune_bundle, directory)
    timed = fx.bench(directory, sizes=[{"batch": 1}], runtimes=["ort-cpu"])
    assert "nothing that a file names is imported" in timed.unavailable["torch"]
    assert not Path("ran").exists()


@pytest.mark.integration
def test_the_command_line_imports_on_trust_alone_and_says_what(bundle: Callable[..., Path]) -> None:
    directory = str(bundle(source={"spec": "payload:make", "kind": "factory"}))
    words = ("verify", directory, "--runtime", "ort-cpu", "--fast")
    plain = command(*words)
    assert plain.returncode == 0, plain.stderr
    assert "add --trust" in plain.stderr
    assert not Path("ran").exists()
    trusted = command(*words, "--trust")
    assert trusted.stderr.startswith("trusting the manifest of b: importing payload:make\n")
    assert Path("ran").exists()


@pytest.mark.slow
def test_a_preset_needs_no_trust(bundle: Callable[..., Path]) -> None:
    assert fx.verify(bundle(), runtimes=["ort-cpu"]).against == "d2l-ffn"


@pytest.mark.parametrize(
    "entry",
    [
        {"session.collect_node_memory_stats_to_file": "ran"},
        {"ep.context_file_path": "ran"},
        {"session.dynamic_block_base": "4\nx"},
        {"optimization.disable_specified_optimizers": "a b"},
    ],
)
def test_session_options_of_a_manifest_are_those_that_are_written(
    bundle: Callable[..., Path], entry: dict[str, str]
) -> None:
    directory = bundle(session_options={"config_entries": entry})
    for verb in (fx.load, fx.verify, fx.quantize, read_manifest):
        assert "which ffn-export never writes" in refusal(IntegrityError, verb, directory)


def test_a_field_that_no_manifest_has(bundle: Callable[..., Path]) -> None:
    assert "unexpected keyword" in refusal(IntegrityError, fx.load, bundle(surprise=1))


@pytest.mark.slow
def test_a_program_is_opened_on_trust_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),)), "m.pt2")
    monkeypatch.setattr(torch.export, "load", lambda *_: pytest.fail("it was opened"))
    for verb in (fx.export, fx.build):
        assert "m.pt2 can run code when it is opened" in refusal(UsageError, verb, "m.pt2")
    fx.build("d2l-ffn", directory=tmp_path, bench_budget=0)
    assert "add trust=True" in refusal(UsageError, fx.verify, tmp_path / "d2l-ffn", "m.pt2")


@pytest.mark.integration
@pytest.mark.parametrize("library", ["click", "onnx", "numpy", "typing_extensions"])
def test_a_file_of_the_current_directory_is_not_imported_in_place_of_a_library(tmp_path: Path, library: str) -> None:
    (tmp_path / f"{library}.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "ffn_export", "inspect", "model.onnx"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("ffn-export: ")
    assert not (tmp_path / "ran").exists()
