"""Where a model may name files, wherever in it the tensor stands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ffn_export.cli.main import run
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from tests.exporter.helpers import refusal

Place = Callable[[TensorProto], onnx.ModelProto]
NUMBERS = np.arange(4, dtype=np.float32)


def kept_in(location: str, **entries: int) -> TensorProto:
    """Return a tensor of four numbers that lie in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def graph(nodes: list[onnx.NodeProto], *initializers: TensorProto) -> onnx.GraphProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    return helper.make_graph(nodes, "g", values[:1], values[1:], initializers)


def model(main: onnx.GraphProto, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    return helper.make_model(main, opset_imports=opsets, functions=functions, ir_version=10)


def add(weight: str = "w") -> onnx.NodeProto:
    return helper.make_node("Add", ["x", weight], ["y"])


def as_initializer(tensor: TensorProto) -> onnx.ModelProto:
    return model(graph([add()], tensor))


def as_constant(tensor: TensorProto) -> onnx.ModelProto:
    return model(graph([helper.make_node("Constant", [], ["w"], value=tensor), add()]))


def in_a_body(tensor: TensorProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Add", ["x", "w"], ["z"])]
    body = helper.make_graph(nodes, "body", [], [value])
    yes = helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
    return model(graph([yes, helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body)]))


def in_a_function(tensor: TensorProto) -> onnx.ModelProto:
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), add()]
    function = helper.make_function("f", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 20)])
    return model(graph([helper.make_node("F", ["x"], ["y"], domain="f")]), function)


PLACES = [as_initializer, as_constant, in_a_body, in_a_function]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[onnx.ModelProto], Path]:
    """Write a model into a directory, with 16 bytes of data beside it."""
    directory = tmp_path / "models"
    directory.mkdir()
    (directory / "data").write_bytes(NUMBERS.tobytes())
    (tmp_path / "secret").write_bytes(b"secret" * 100)

    def made(proto: onnx.ModelProto) -> Path:
        (directory / "m.onnx").write_bytes(proto.SerializeToString())
        return directory / "m.onnx"

    return made


@pytest.mark.parametrize("place", PLACES)
def test_data_beside_the_model_is_read_wherever_it_is_named(
    write: Callable[[onnx.ModelProto], Path], place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, out = write(place(kept_in("./data", offset=0, length=16))), tmp_path / "out" / "fused.onnx"
    assert run(["fuse", str(path), "-o", str(out)]) == 0
    onnx.checker.check_model(str(out))
    fused = out.read_bytes()
    assert NUMBERS.tobytes() in fused or b"data" in fused


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("../secret", "outside of its directory"),
        ("a/../../secret", "outside of its directory"),
        ("/etc/hostname", "outside of its directory"),
        ("link", "outside of its directory"),
        ("directory/secret", "outside of its directory"),
        ("pipe", "is no regular file"),
        ("zero", "outside of its directory"),
        ("", "is no regular file"),
        ("circle", "is the path of no file"),
        ("none", "is not beside it"),
        ("short", "is cut off"),
        ("a" * 300, "is the path of no file"),
    ],
)
def test_what_a_model_may_not_name(
    write: Callable[[onnx.ModelProto], Path], place: Place, location: str, says: str, tmp_path: Path
) -> None:
    path = write(place(kept_in(location)))
    (path.parent / "link").symlink_to(tmp_path / "secret")
    (path.parent / "directory").symlink_to(tmp_path)
    (path.parent / "zero").symlink_to("/dev/zero")
    (path.parent / "circle").symlink_to("circle")
    (path.parent / "short").write_bytes(b"only")
    os.mkfifo(path.parent / "pipe")
    assert says in refusal(UsageError, onnx_file.load, path)
    lacks = says in ("is not beside it", "is cut off") and place is as_initializer
    for command in ("inspect", "fuse", "verify", "quantize"):
        options = {"fuse": ["-o", "o.onnx"], "quantize": ["-o", "o.onnx"], "verify": ["--against", "d2l-ffn"]}
        status = run([command, str(path), *options.get(command, [])])
        assert status == (0 if command == "inspect" and lacks else 2)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": -1},
        {"offset": 10**30},
        {"length": -16},
        {"length": 8},
        {"offset": "x"},
        {"offset": 4},
        {"length": 17},
    ],
)
def test_places_that_are_none(write: Callable[[onnx.ModelProto], Path], entries: dict[str, int]) -> None:
    for place in PLACES:
        message = refusal(UsageError, onnx_file.load, write(place(kept_in("data", **entries))))
        assert "is cut off" in message or "is no valid ONNX graph" in message


def test_a_path_that_is_no_file_to_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    for path in ("/dev/zero", str(tmp_path / "pipe.onnx"), str(tmp_path / "none.onnx"), "x" * 300):
        assert run(["inspect", path]) == 2
        assert run(["fuse", path, "-o", str(tmp_path / "o.onnx")]) == 2
        assert run(["verify", path, "--against", "d2l-ffn"]) == 2
        error = capfd.readouterr().err
        assert "unexpected" not in error
        assert error.count("\n") == 3
