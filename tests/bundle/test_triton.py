"""The model repository for Triton, held against its published protobuf. Triton itself is not run here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

import ffn_export as fx
from ffn_export.bundle.manifest import Manifest, read_manifest
from ffn_export.bundle.triton import config, write_repository
from ffn_export.cli.main import run

INPUT = {"name": "x", "dtype": "float32", "shape": ["batch", "seq", 4]}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("built"), fast=True, bench_budget=0).directory


@pytest.fixture
def manifest(bundle: Path) -> Manifest:
    return read_manifest(bundle)


def parsed(text: str) -> Any:
    """Return the message that Triton reads; a field that it does not have fails."""
    published = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="tritonclient is not installed")
    return text_format.Parse(text, published.ModelConfig())


def test_a_build_writes_a_repository(tmp_path: Path) -> None:
    command = ["build", "d2l-ffn", "--fast", "-o", str(tmp_path), "--triton", str(tmp_path / "models"), "--quiet"]
    assert run(command) == 0
    written = tmp_path / "models" / "d2l-ffn"
    assert (written / "1" / "model.onnx").read_bytes() == (tmp_path / "d2l-ffn" / "model.onnx").read_bytes()
    read = parsed((written / "config.pbtxt").read_text())
    assert (read.backend, read.max_batch_size) == ("onnxruntime", 64)
    assert read.HasField("dynamic_batching")
    assert [(each.name, each.data_type, list(each.dims)) for each in read.input] == [("x", 11, [-1, 4])]
    assert [(each.name, list(each.dims)) for each in read.output] == [("y", [-1, 4])]
    assert list(read.version_policy.specific.versions) == [1]
    assert read.optimization.graph.level == -1
    assert read.instance_group[0].Kind.Name(read.instance_group[0].kind) == "KIND_CPU"


def test_a_batch_has_the_bound_of_its_axis(manifest: Manifest) -> None:
    bounded = replace(manifest, source={**manifest.source, "inputs": {"x": "float32[batch<=8,seq,4]"}})
    assert parsed(config(bounded)).max_batch_size == 8


@pytest.mark.parametrize("shape", [["seq", 4], [4], []])
def test_tensors_without_an_axis_in_common_are_not_batched(manifest: Manifest, shape: list[Any]) -> None:
    read = parsed(config(replace(manifest, outputs=({"name": "y", "dtype": "float16", "shape": shape},))))
    assert read.max_batch_size == 0
    assert not read.HasField("dynamic_batching")
    assert list(read.input[0].dims) == [-1, -1, 4]


def test_a_number_for_each_row_has_one_axis_in_triton(manifest: Manifest) -> None:
    read = parsed(config(replace(manifest, outputs=({"name": "y", "dtype": "int64", "shape": ["batch"]},))))
    assert list(read.output[0].dims) == [1]
    assert read.output[0].HasField("reshape")
    assert list(read.output[0].reshape.shape) == []


def test_cuda_computes_as_it_was_verified(manifest: Manifest) -> None:
    on_cuda = replace(manifest, provider="CUDAExecutionProvider", provider_options={"use_tf32": "0"})
    (accelerator,) = parsed(config(on_cuda)).optimization.execution_accelerators.gpu_execution_accelerator
    assert (accelerator.name, dict(accelerator.parameters)) == ("cuda", {"use_tf32": "0"})


def test_what_triton_cannot_run_or_has_another_owner_is_refused(
    bundle: Path, manifest: Manifest, tmp_path: Path
) -> None:
    with pytest.raises(fx.UsageError, match="was verified on FfnExecutionProvider, which Triton does not have"):
        config(replace(manifest, provider="FfnExecutionProvider"))
    write_repository(bundle, tmp_path)
    assert write_repository(bundle, tmp_path) == tmp_path / "d2l-ffn", "an earlier one is replaced"
    (tmp_path / "d2l-ffn" / "2").mkdir()
    with pytest.raises(fx.UsageError, match="is in the way and not of"):
        write_repository(bundle, tmp_path)
