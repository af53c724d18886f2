from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from torch import nn

from ffn_export.core import inline_weights, onnx_file
from ffn_export.errors import UsageError
from tests.exporter.helpers import exported, refusal

X = np.ones((2, 64), np.float32)


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return exported(nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64)), {"x": "float32[n,64]"})


def result(path: Path) -> list[float]:
    """What ONNX Runtime, which finds external data by itself, gives for a file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    values: list[float] = session.run(None, {"x": X})[0].ravel().tolist()
    return values


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.slow
def test_save_and_load(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "new" / "directory" / "model.onnx"
    onnx_file.save(model, path)
    assert files(path.parent) == ["model.onnx"]
    assert [node.op_type for node in onnx_file.load(path).graph] == [node.op_type for node in model.graph]
    onnx_file.save(onnx_file.load(path), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_weights_above_the_limit_go_beside_the_model(model: ir.Model, tmp_path: Path) -> None:
    inline, external = tmp_path / "inline.onnx", tmp_path / "external.onnx"
    size = onnx_file.weight_bytes(model)
    assert size == (64 * 96 + 96 + 96 * 64 + 64) * 4
    onnx_file.save(model, inline, external_above=size)
    onnx_file.save(model, external, external_above=size - 1)
    assert files(tmp_path) == ["external.onnx", "external.onnx.data", "inline.onnx"]
    assert external.stat().st_size < 10_000 < inline.stat().st_size
    assert result(external) == result(inline)
    # The model in memory still has its weights, and did not learn where they were written.
    assert not any(isinstance(v.const_value, ir.ExternalTensor) for v in model.graph.initializers.values())
    shutil.rmtree(tmp_path)
    assert onnx_file.weight_bytes(model) == size


def test_external_weights_stay_on_disk_until_needed(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_file.save(model, path, external_above=0)
    loaded = onnx_file.load(path)
    large = [
        v.const_value
        for v in loaded.graph.initializers.values()
        if v.const_value is not None and v.const_value.nbytes > 256
    ]
    assert len(large) >= 3
    assert all(isinstance(tensor, ir.ExternalTensor) and tensor.raw is None for tensor in large)


@pytest.mark.parametrize("external_above", [0, 10**9])
def test_a_loaded_model_is_saved_elsewhere_and_in_place(model: ir.Model, tmp_path: Path, external_above: int) -> None:
    first, other = tmp_path / "first" / "model.onnx", tmp_path / "other" / "moved.onnx"
    onnx_file.save(model, first, external_above=0)
    expected = result(first)
    onnx_file.save(onnx_file.load(first), other, external_above=external_above)
    onnx_file.save(onnx_file.load(first), first, external_above=external_above)
    assert result(first) == expected
    shutil.rmtree(first.parent)
    assert files(other.parent) == (["moved.onnx"] if external_above else ["moved.onnx", "moved.onnx.data"])
    assert result(other) == expected


def test_the_same_bytes_with_external_weights(model: ir.Model, tmp_path: Path) -> None:
    for directory in ("a", "b"):
        onnx_file.save(model, tmp_path / directory / "model.onnx", external_above=0)
    for name in ("model.onnx", "model.onnx.data"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_weights_that_are_not_there(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_file.save(model, path, external_above=0)
    data = tmp_path / "model.onnx.data"
    data.write_bytes(data.read_bytes()[:1000])
    assert "keeps its weights in 'model.onnx.data', which is cut off" in refusal(UsageError, onnx_file.load, path)
    data.unlink()
    assert "keeps its weights in 'model.onnx.data', which is not beside it" in refusal(UsageError, onnx_file.load, path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no ONNX model: it holds no opset and no node"),
        (b"this is a text", "is no ONNX model: it does not parse as protobuf"),
        (b"{}", "is no ONNX model"),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "file").write_bytes(content)
    assert words in refusal(UsageError, onnx_file.load, tmp_path / "file")


def test_a_model_that_is_cut_off(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_file.save(model, path)
    path.write_bytes(path.read_bytes()[:5000])
    assert "does not parse as protobuf" in refusal(UsageError, onnx_file.load, path)


def test_nothing_to_load(tmp_path: Path) -> None:
    assert refusal(UsageError, onnx_file.load, tmp_path / "none.onnx") == f"no such file: {tmp_path / 'none.onnx'}"
    assert "is a directory, not an ONNX file" in refusal(UsageError, onnx_file.load, tmp_path)


def test_nowhere_to_write(model: ir.Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for write in (lambda path: onnx_file.save(model, path), onnx_file.check_writable):
        assert "is a directory: name the ONNX file to write" in refusal(UsageError, write, tmp_path)
        assert f"cannot write to {tmp_path / 'file'}" in refusal(UsageError, write, tmp_path / "file" / "model.onnx")
    assert files(tmp_path) == ["file"]


def test_a_device_is_not_replaced_by_a_file(model: ir.Model, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (lambda path: onnx_file.save(model, path), onnx_file.check_writable):
        assert "is no regular file: name the ONNX file to write" in refusal(UsageError, write, pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_interrupted_write_leaves_the_old_model(
    model: ir.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def interrupted(model: ir.Model, file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(inline_weights, "write_with_weights", interrupted)
    with pytest.raises(KeyboardInterrupt):
        onnx_file.save(model, path)
    assert path.read_bytes() == b"old"
    assert files(tmp_path) == ["model.onnx"]


@pytest.mark.slow
def test_what_ties_a_model_to_a_machine_is_removed() -> None:
    model = exported(nn.Linear(4, 4), {"x": "float32[n,4]"})
    (node,) = model.graph
    assert not [key for key in node.metadata_props if "stack_trace" in key or "fx_node" in key]
    assert any("name_scopes" in key for key in node.metadata_props)
    node.metadata_props["pkg.torch.onnx.stack_trace"] = "/home/me/model.py"
    onnx_file.strip_machine_metadata(model)
    assert "/home/me/model.py" not in node.metadata_props.values()


@pytest.mark.parametrize("where", ["../data.bin", "weights/../../data.bin", "absolute"])
def test_weights_outside_of_the_models_directory_are_not_read(model: ir.Model, where: str, tmp_path: Path) -> None:
    """As onnx and ONNX Runtime hold it: a file from elsewhere must not name what it likes."""
    path = tmp_path / "models" / "m.onnx"
    onnx_file.save(model, path, external_above=0)
    data = shutil.move(path.with_name("m.onnx.data"), tmp_path / "data.bin")
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = str(data) if where == "absolute" else where
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(UsageError, match="outside of its directory: copy them beside it"):
        onnx_file.load(path)


def test_weights_behind_a_link_and_in_a_directory_below_are_read(model: ir.Model, tmp_path: Path) -> None:
    blobs, path = tmp_path / "blobs", tmp_path / "snapshot" / "m.onnx"
    blobs.mkdir()
    onnx_file.save(model, path, external_above=0)
    shutil.move(path.with_name("m.onnx.data"), blobs / "data")
    path.with_name("m.onnx.data").symlink_to(blobs / "data")
    assert "outside of its directory" in refusal(UsageError, onnx_file.load, path)
    shutil.move(path, blobs / "model")
    path.symlink_to(blobs / "model")  # as in a cache of Hugging Face
    assert onnx_file.weight_bytes(onnx_file.load(path)) == onnx_file.weight_bytes(model)
