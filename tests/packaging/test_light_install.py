"""A bundle runs where nothing but NumPy, onnxruntime and this package without its dependencies is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ffn_export as fx
from tests.bundle.processors import on_another_processor
from tests.bundle.test_hostile_bundles import (
    Change,
    model_of,
    model_that_names,
    pipe_in_place_of,
    zeros_in_place_of,
)

PROGRAM = Path(__file__).with_name("light_program.py")
Call = Callable[..., subprocess.CompletedProcess[str]]
# Run where everything is installed: what is imported when.
IMPORTS = """
import importlib, io, sys
from contextlib import redirect_stdout

def loaded(*names):
    return sorted({"scipy", "junitparser", "matplotlib", "jinja2", *names} & {n.partition(".")[0] for n in sys.modules})

BUILDERS = ("torch", "onnx", "onnx_ir", "onnxscript")
import ffn_export as fx
assert not loaded(*BUILDERS, "onnxruntime", "numpy", "click", "rich"), "import ffn_export"
for name in ("console", "tables", "json_report", "markdown", "sarif", "github", "html", "formats"):
    importlib.import_module(f"ffn_export.reports.{name}")
    assert not loaded(*BUILDERS, "onnxruntime", "numpy"), name
from ffn_export.cli.main import COMMANDS, run
with redirect_stdout(io.StringIO()):
    for arguments in (["--help"], ["list"], *([name, "--help"] for name in COMMANDS)):
        assert run(arguments) == 0, arguments
        assert not loaded(*BUILDERS, "onnxruntime", "numpy"), arguments
assert fx.load(sys.argv[1], threads=1).providers
assert not loaded(*BUILDERS), "load"
assert run("export d2l-ffn -o m.onnx --quiet".split()) == 0
assert not loaded(), "export"
assert run("verify m.onnx --against d2l-ffn --fast --threads 1 --runtime ort-cpu --quiet".split()) == 0
assert loaded() == ["scipy"], "verify without a report"
"""


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """A virtual environment that holds the three packages; the two are linked, not downloaded."""
    place = tmp_path_factory.mktemp("light")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    for module in (np, pytest.importorskip("onnxruntime")):
        home = Path(str(module.__file__)).parent
        for found in (home, home.with_name(f"{home.name}.libs")):
            if found.is_dir():
                (packages / found.name).symlink_to(found)
    assert {path.name for path in packages.iterdir() if path.is_dir()} - {"numpy.libs"} == {
        "numpy",
        "onnxruntime",
        "ffn_export",
        f"ffn_export-{metadata.version('ffn-export')}.dist-info",
    }

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python), "-I", *words], cwd=place, capture_output=True, text=True, check=False, timeout=120
        )

    return call


def outcomes(light: Call, directories: Sequence[Path]) -> list[dict[str, Any]]:
    done = light(str(PROGRAM), *map(str, directories))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("exported"), bench_budget=0).directory


@pytest.mark.integration
def test_it_loads_and_runs_as_here(light: Call, built: Path, tmp_path: Path) -> None:
    half = fx.build("d2l-ffn", directory=tmp_path, name="half", dtype="float16", bench_budget=0).directory
    joined = tmp_path / "joined"
    fx.join([on_another_processor(built, tmp_path / "there"), built], joined, fast=True)
    for directory, found in zip((built, half, joined), outcomes(light, [built, half, joined]), strict=True):
        session = fx.load(directory, threads=1)
        expected = session.run({"x": np.ones((2, 2, 4), session.manifest.inputs[0]["dtype"])})["y"]
        assert found == {"dtype": expected.dtype.name, "output": expected.astype(float).ravel().tolist()}


@pytest.mark.integration
def test_it_refuses_what_is_refused_here(light: Call, built: Path, tmp_path: Path) -> None:
    changes: dict[str, Change] = {
        **{f"pipe-{name}": pipe_in_place_of(name) for name in ("manifest.json", "model.onnx")},
        **{f"zeros-{name}": zeros_in_place_of(name) for name in ("manifest.json", "model.onnx")},
        "not-listed": model_that_names("weights.bin"),
        "outside": model_that_names("../secret"),
        "outside-listed": model_that_names("../secret", "../secret"),
        "absolute": model_that_names("/etc/hostname"),
        "no-model": model_of(b"no model"),
        "another-model": lambda directory: (directory / "model.onnx").write_bytes(b""),
        "wrong-type": lambda directory: (directory / "manifest.json").write_text("[]"),
        "too-large": lambda directory: (directory / "manifest.json").write_bytes(b" " * 2**25),
    }
    (tmp_path / "secret").write_bytes(b"secret" * 9)
    directories = [Path(shutil.copytree(built, tmp_path / name)) for name in changes]
    for directory, change in zip(directories, changes.values(), strict=True):
        change(directory)
    for name, found in zip(changes, outcomes(light, directories), strict=True):
        assert found.get("error") == "IntegrityError", (name, found)
        assert "\n" not in found["message"]


def test_bfloat16_says_what_to_install(light: Call, built: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(built, tmp_path / "b"))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["inputs"][0]["dtype"] = "bfloat16"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    (found,) = outcomes(light, [copy])
    assert found["message"].endswith("needs ml_dtypes, which is not installed: pip install ml_dtypes")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-m", "ffn_export", "list"], "ffn-export: ffn-export needs click, which is not installed: pip"),
        (["-c", "import ffn_export as fx; fx.export"], "ffn_export.export needs onnx_ir, which is not installed"),
        (["-c", "from ffn_export.modules import FeedForward"], "FeedForward needs torch"),
    ],
)
def test_what_needs_more_says_so_in_its_last_line(light: Call, words: list[str], told: str) -> None:
    done = light(*words)
    assert done.returncode != 0
    assert told in done.stderr.splitlines()[-1]


@pytest.mark.integration
def test_nothing_is_imported_before_it_is_used(built: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPORTS, str(built)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
