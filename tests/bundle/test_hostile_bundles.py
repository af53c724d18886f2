"""Bundles that were made to do harm: each is refused in one line, by every reader."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ffn_export as fx
from ffn_export.bundle import results
from ffn_export.cli.main import run
from ffn_export.errors import FfnExportError, IntegrityError, UsageError
from tests.exporter.helpers import refusal

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("exported"), bench_budget=0).directory


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "b"))


def rehash(directory: Path, *added: str) -> None:
    """Make the hashes of a manifest those of the files again."""
    manifest = json.loads((directory / "manifest.json").read_text())
    for name in (*manifest["files"], *added):
        manifest["files"][name] = hashlib.sha256((directory / name).read_bytes()).hexdigest()
    (directory / "manifest.json").write_text(json.dumps(manifest))


def named(directory: Path, data: str, *listed: str) -> None:
    """Give the model a constant that is kept in a file, with hashes that fit."""
    model = onnx.load(directory / "model.onnx")
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=data)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["unused"], value=tensor))
    onnx.save(model, directory / "model.onnx")
    rehash(directory, *listed)


def pipe_in_place_of(name: str) -> Change:
    def change(directory: Path) -> None:
        (directory / name).unlink()
        os.mkfifo(directory / name)

    return change


def zeros_in_place_of(name: str) -> Change:
    def change(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).symlink_to("/dev/zero")

    return change


def manifest_that_lists(name: str) -> Change:
    def change(directory: Path) -> None:
        manifest = json.loads((directory / "manifest.json").read_text())
        manifest["files"][name] = "0" * 64
        (directory / "manifest.json").write_text(json.dumps(manifest))

    return change


def model_of(content: bytes) -> Change:
    def change(directory: Path) -> None:
        (directory / "model.onnx").write_bytes(content)
        rehash(directory)

    return change


def model_that_names(data: str, *listed: str) -> Change:
    def change(directory: Path) -> None:
        (directory / "weights.bin").write_bytes(b"\0" * 8)
        named(directory, data, *listed)

    return change


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        *(pipe_in_place_of(name) for name in ("manifest.json", "model.onnx")),
        *(zeros_in_place_of(name) for name in ("manifest.json", "model.onnx")),
        *(manifest_that_lists(name) for name in ("/etc/hostname", "../b/model.onnx2", "a\0b", "x" * 300, "none")),
        model_of(b"no model"),
        model_of(b""),
        model_of(b"\x0a" * 99),
        model_that_names("weights.bin"),
        model_that_names("/etc/hostname"),
        model_that_names("../b/weights.bin"),
    ],
)
def test_it_is_refused_whoever_reads_it(bundle: Path, change: Change, capfd: pytest.CaptureFixture[str]) -> None:
    change(bundle)
    with pytest.raises((IntegrityError, UsageError)):
        fx.verify(bundle, runtimes=["ort-cpu"])
    for command in ("verify", "inspect", "bench", "quantize"):
        run([command, str(bundle), *(["-o", str(bundle.parent / "q.onnx")] if command == "quantize" else [])])
    assert "unexpected" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "change", [pipe_in_place_of("model.onnx"), model_of(b"no model"), model_that_names("weights.bin")]
)
def test_it_is_not_loaded(bundle: Path, change: Change) -> None:
    change(bundle)
    with pytest.raises(IntegrityError):
        fx.load(bundle)


def test_every_file_that_the_model_reads_is_hashed(bundle: Path) -> None:
    """Whatever it is called, and where the model reads it: here in a constant."""
    (bundle / "weights.bin").write_bytes(np.float32(1).tobytes())
    named(bundle, "weights.bin", "weights.bin")
    fx.load(bundle)
    (bundle / "weights.bin").write_bytes(np.float32(2).tobytes())
    assert "weights.bin is not the file that was verified" in refusal(IntegrityError, fx.load, bundle)


def test_test_vectors_are_those_that_are_listed(bundle: Path) -> None:
    os.mkfifo(bundle / "test_data_set_0" / "input_1.pb")
    assert "does not list 'test_data_set_0/input_1.pb'" in refusal(IntegrityError, fx.verify, bundle)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inputs", [{"name": "x", "dtype": "float32", "shape": None}]),
        ("inputs", [{"name": "nobody", "dtype": "float99", "shape": ["n"]}]),
        ("latency", {"baseline": "", "measurements": [{}]}),
        ("source", {"spec": "d2l-ffn", "seed": 2**63}),
        ("tolerances", {"closeness": {"*": {"atol": "much", "rtol": 0}}}),
        ("provider", "NoSuchExecutionProvider"),
    ],
)
def test_whatever_a_manifest_says_ends_in_a_result_or_one_line(
    bundle: Path, key: str, value: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest[key] = {**manifest[key], **value} if isinstance(value, dict) else value
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    for command in ("verify", "inspect", "diff"):
        run([command, str(bundle), *([str(bundle)] if command == "diff" else ["--quiet"][: command == "verify"])])
    assert "unexpected" not in capfd.readouterr().err
    with suppress(FfnExportError):
        fx.load(bundle).run({"x": np.zeros((1, 2, 4), np.float32)})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("latency.json", {"measurements": "x"}),
        ("latency.json", {"model": "m", "baseline": 3, "measurements": [], "unavailable": {}, "environment": None}),
        ("fusion.json", {"format": 2, "target": "ort-cpu", "sites": [], "rules": {"a": "b"}, "nodes": {}, "opset": {}}),
        ("sites.json", {"sites": [{"sites": [], "before": {"places": [], "edges": [[0, 1]]}, "after": {}}]}),
        ("tuning.json", []),
    ],
)
def test_results_of_wrong_types(bundle: Path, name: str, data: Any) -> None:
    (bundle / name).write_text(json.dumps(data))
    assert f"{name} is damaged" in refusal(UsageError, results.read, bundle)
