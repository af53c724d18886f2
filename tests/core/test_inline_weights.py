"""Model files that hold their weights are read and written without the weights in memory, and stay the same bytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from ffn_export.core import onnx_file
from ffn_export.core.inline_weights import without_weights
from ffn_export.errors import UsageError
from tests.exporter.helpers import refusal

LARGE = np.arange(600, dtype=np.float32).reshape(20, 30)


def model(*weights: TensorProto) -> onnx.ModelProto:
    """A sum of all weights, one after the other."""
    names = [weight.name for weight in weights]
    nodes = [helper.make_node("Identity", [name], [f"y_{name}"]) for name in names]
    outputs = [helper.make_tensor_value_info(f"y_{w.name}", w.data_type, list(w.dims)) for w in weights]
    graph = helper.make_graph(nodes, "weights", [], outputs, initializer=list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def in_place(path: Path) -> list[str]:
    loaded = onnx_file.load(path, in_place=True)
    return [
        name for name, value in loaded.graph.initializers.items() if isinstance(value.const_value, ir.ExternalTensor)
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.onnx"


def test_a_large_weight_stays_in_the_file(file: Path) -> None:
    small = numpy_helper.from_array(np.ones(3, np.float32), "small")
    file.write_bytes(model(numpy_helper.from_array(LARGE, "large"), small).SerializeToString())
    assert in_place(file) == ["large"]
    weight = onnx_file.load(file, in_place=True).graph.initializers["large"].const_value
    assert weight is not None
    np.testing.assert_array_equal(weight.numpy(), LARGE)
    left = without_weights(file)
    assert left is not None
    assert len(left) < LARGE.nbytes


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool"])
def test_written_again_the_file_has_the_same_bytes(dtype: str, file: Path, tmp_path: Path) -> None:
    weight = numpy_helper.from_array((LARGE % 7).repeat(8, axis=1).astype(dtype), "w")
    weight.doc_string = "a weight"
    other = helper.make_tensor("floats", TensorProto.FLOAT, [600], list(map(float, range(600))))
    texts = TensorProto(name="texts", data_type=TensorProto.STRING, dims=[300], string_data=[b"text"] * 300)
    file.write_bytes(model(weight, other, texts).SerializeToString())
    assert in_place(file) == ["w"]  # the others are in no raw_data
    usual, written = tmp_path / "usual.onnx", tmp_path / "written.onnx"
    ir.save(ir.load(file), usual)
    for loaded in (onnx_file.load(file), onnx_file.load(file, in_place=True)):
        onnx_file.save(loaded, written)
        assert written.read_bytes() == usual.read_bytes()
        held = loaded.graph.initializers["w"].const_value
        assert held is not None
        assert held.doc_string == "a weight"


def test_a_weight_that_stays_in_a_model_file_is_no_external_data_of_another(file: Path, tmp_path: Path) -> None:
    file.write_bytes(model(numpy_helper.from_array(LARGE, "w")).SerializeToString())
    beside = tmp_path / "beside.onnx"
    onnx_file.save(onnx_file.load(file, in_place=True), beside)
    file.unlink()
    weight = onnx_file.load(beside).graph.initializers["w"].const_value
    assert weight is not None
    np.testing.assert_array_equal(weight.numpy(), LARGE)


def test_a_weight_that_could_be_read_in_two_ways_is_read_in(file: Path) -> None:
    weight = numpy_helper.from_array(LARGE, "w").SerializeToString()
    twice = weight + TensorProto(raw_data=LARGE[::-1].tobytes()).SerializeToString()
    main = (
        model().SerializeToString()
        + onnx.ModelProto(
            graph=onnx.GraphProto(
                node=[helper.make_node("Identity", ["w"], ["y"])],
                output=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 30])],
            )
        ).SerializeToString()
    )
    size = len(twice)
    assert 2**7 <= size < 2**14
    initializer = bytes([5 << 3 | 2, size & 0x7F | 0x80, size >> 7]) + twice
    size = len(initializer)
    file.write_bytes(main + bytes([7 << 3 | 2, size & 0x7F | 0x80, size >> 7]) + initializer)
    assert in_place(file) == []
    weight_read = onnx_file.load(file, in_place=True).graph.initializers["w"].const_value
    assert weight_read is not None
    np.testing.assert_array_equal(weight_read.numpy(), LARGE[::-1])


def test_links_are_followed_and_a_file_of_two_names_is_read_in(file: Path, tmp_path: Path) -> None:
    file.write_bytes(model(numpy_helper.from_array(LARGE, "w")).SerializeToString())
    linked = tmp_path / "elsewhere" / "linked.onnx"
    linked.parent.mkdir()
    linked.symlink_to(file)
    assert in_place(linked) == ["w"]
    os.link(file, tmp_path / "second.onnx")
    assert in_place(file) == []


@pytest.mark.parametrize("data", [b"", b"\x0b\x0b\x0b", b"\x3a\xff"])
def test_what_is_no_protobuf_is_refused_as_ever(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    assert without_weights(file) is None
    assert refusal(UsageError, onnx_file.load, file, in_place=True) == refusal(UsageError, onnx_file.load, file)


def test_text_formats_are_read_and_written_whole(tmp_path: Path) -> None:
    loaded = ir.from_proto(model(numpy_helper.from_array(LARGE, "w")))
    path = tmp_path / "m.textproto"
    onnx_file.save(loaded, path)
    assert in_place(path) == []
