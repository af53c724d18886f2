"""The external tensors of a model, found in its bytes, are those that onnx finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto

from ffn_export.core import external_files, external_protos
from ffn_export.core.wire_format import external_tensors
from ffn_export.errors import UsageError
from tests.core.test_external_files import PLACES, Place, add, as_initializer, graph, kept_in, model
from tests.exporter.helpers import refusal


def sparse(tensor: TensorProto) -> onnx.ModelProto:
    main = graph([add()])
    main.sparse_initializer.add(values=tensor, indices=kept_in("indices"))
    return model(main)


def in_training(tensor: TensorProto) -> onnx.ModelProto:
    made = model(graph([add()]))
    made.training_info.add(algorithm=graph([add()], tensor))
    return made


def in_a_default_of_a_function(tensor: TensorProto) -> onnx.ModelProto:
    function = onnx.FunctionProto(name="F", domain="f")
    function.attribute_proto.add(name="a", type=onnx.AttributeProto.TENSORS, tensors=[tensor])
    return model(graph([add()]), function)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("place", [*PLACES, sparse, in_training, in_a_default_of_a_function])
def test_wherever_a_tensor_stands(place: Place, file: Path) -> None:
    proto = place(kept_in("data", offset=4, length=16))
    file.write_bytes(proto.SerializeToString())
    found = external_tensors(file)
    assert found
    assert sorted(found, key=repr) == sorted(external_protos.external_tensors(proto), key=repr)


@pytest.mark.slow
@pytest.mark.no_cover
def test_damaged_files_are_refused_or_read_alike(file: Path) -> None:
    """No damage makes a file name something that is found by onnx and not here."""
    whole = as_initializer(kept_in("data", offset=4, length=16)).SerializeToString()
    random, read = Random(0), 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(random.choice((1, 1, 2, 4))):
            data[random.randrange(len(data))] = random.choice((0, 1, 8, 0x7F, 0x80, 0xFF, random.randrange(256)))
        file.write_bytes(data)
        try:
            proto = onnx.load_model_from_string(bytes(data))
            expected = external_files.locations(external_protos.external_tensors(proto))
        except Exception:  # noqa: BLE001 - onnx refuses it, or a name in it
            continue
        try:
            assert external_files.locations(external_tensors(file)) >= expected
            read += 1
        except UsageError:
            continue
    assert read > 500


def test_a_message_that_is_given_twice_is_merged_by_parsers(file: Path) -> None:
    """The second part of the graph adds to the first, and so does a second part of a tensor."""
    parts = [as_initializer(kept_in(name)).SerializeToString() for name in ("one", "two")]
    file.write_bytes(b"".join(parts))
    assert external_files.locations(external_tensors(file)) == {"one", "two"}


def test_every_location_of_a_tensor_counts(file: Path) -> None:
    tensor = kept_in("first")
    tensor.external_data.add(key="location", value="second")
    file.write_bytes(as_initializer(tensor).SerializeToString())
    assert external_files.locations(external_tensors(file)) == {"first", "second"}


@pytest.mark.parametrize(
    "data",
    [
        b"no model",
        b"\x0a" * 3,  # cut off
        b"\x3b\x3c",  # a group
        b"\x00\x00",  # field 0
        b"\x08" + b"\xff" * 10 + b"\x01",  # a number of more than 64 bits
        b"\xff" * 5 + b"\x7f\x01",  # a tag of more than 32 bits
    ],
)
def test_what_a_parser_may_read_in_two_ways_is_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert "does not parse as protobuf" in refusal(UsageError, external_tensors, file)


@pytest.mark.parametrize("dtype", [each for each in ir.DataType if each.name not in ("UNDEFINED", "STRING")])
def test_sizes_of_data_types_are_those_of_onnx(dtype: ir.DataType, file: Path) -> None:
    described = external_files.ExternalTensor("w", dtype.value, (3,), (), True)
    assert external_files.extent(file, described) == (0, (3 * dtype.bitwidth + 7) // 8)
