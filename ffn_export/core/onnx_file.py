"""Read ONNX files with one-line errors, and write them atomically and deterministically."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import external_data
from onnx_ir.external_data import convert_tensors_from_external

from ffn_export.core import external_files, external_protos, inline_weights, plain_file, replaced, sparse, well_formed
from ffn_export.core.one_line import first_line, root_cause
from ffn_export.core.quiet import quiet_reading
from ffn_export.errors import UsageError

# Weights that come from external data are written as external data again, unless they are at most this large.
_INLINE_BELOW_BYTES = 2**26

# Mark of a weight that lies in a model file.
_IN_PLACE = "ffn_export.in_place"

# A protobuf message holds at most 2 GiB, and the graph needs some of it.
EXTERNAL_ABOVE_BYTES = 2**31 - 2**26
_MOST_BYTES = 2**31

# Source lines and traced nodes, recorded by torch. They hold absolute paths, so an export from another directory would
# differ. Module scopes are kept, since they relate a node to its PyTorch module.
_MACHINE_METADATA = ("pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node")


def load(path: Path | str, in_memory: Collection[str] = (), *, in_place: bool = False) -> ir.Model:
    """Read an ONNX model; external data stays on disk until it is needed.

    Args:
        path: The file.
        in_memory: Names of initializers whose external data is not on disk and cannot be read.
        in_place: Whether weights that the file itself holds stay there, too; it must not change as long as the model
            is used.

    Raises:
        UsageError: If the file is missing or is no ONNX model, its graph is not valid, or its external data is
            incomplete.
    """
    model = read(path, in_memory, in_place=in_place)
    if not model.opset_imports and not len(model.graph):
        raise UsageError(f"{path} is no ONNX model: it holds no opset and no node")
    _check_well_formed(Path(path), model)
    return model


def read(
    path: Path | str, in_memory: Collection[str] = (), *, may_lack: bool = False, in_place: bool = False
) -> ir.Model:
    """Read an ONNX model without checking its graph.

    Args:
        path: The file.
        in_memory: As for :func:`load`.
        may_lack: Whether the external files of initializers may be missing or truncated.
        in_place: As for :func:`load`.

    Raises:
        UsageError: If the file is missing or is no ONNX model, or one of its external files is refused or missing.
    """
    path = Path(path)
    if in_place and path.is_file():
        path = path.resolve()  # onnx-ir opens no link that leaves its directory
        in_place = path.stat().st_nlink == 1  # nor a file of several names
    proto = read_proto(path, in_place=in_place)
    external_files.check(path, external_protos.external_tensors(proto), in_memory, may_lack=may_lack)
    external_protos.read_in(path, proto)
    try:
        with quiet_reading():
            model = from_proto(proto)
    except Exception as error:  # onnx-ir wraps the cause in errors that name its functions
        raise UsageError(f"{path} is no valid ONNX graph: {first_line(root_cause(error))}") from error
    external_data.set_base_dir(model.graph, path.parent)
    for _, tensor in weights(model):
        if in_place and isinstance(tensor, ir.ExternalTensor) and tensor.location == path.name:
            tensor.meta[_IN_PLACE] = True
    return model


def read_proto(path: Path, *, in_place: bool = False) -> onnx.ModelProto:
    """Parse a file as protobuf, without its external data; ``in_place`` leaves its large weights in the file, too.

    Raises:
        UsageError: If it cannot be read, or does not parse.
    """
    if os.path.isdir(path):  # noqa: PTH112 - never raises
        raise UsageError(f"{path} is a directory, not an ONNX file")
    text_format = onnx.serialization.registry.get_format_from_file_extension(path.suffix)
    data = inline_weights.without_weights(path) if in_place and _is_binary(path) else None
    if data is None:
        data = plain_file.read_bytes(path, _MOST_BYTES)
    try:
        return onnx.load_model_from_string(data, text_format or "protobuf")
    except Exception as error:
        raise UsageError(f"{path} is no ONNX model: it does not parse as protobuf") from error


def from_proto(proto: onnx.ModelProto) -> ir.Model:
    """Convert a protobuf model to onnx-ir, with sparse constants made dense in place."""
    sparse.densify(proto)
    return ir.from_proto(proto)


def _check_well_formed(path: Path, model: ir.Model) -> None:
    try:
        well_formed.order(model)
    except ValueError as error:
        raise UsageError(f"{path} is no valid ONNX graph: its nodes form a cycle") from error
    for fault in well_formed.faults(model):
        raise UsageError(f"{path} is no valid ONNX graph: {fault}")


def weights(model: ir.Model) -> list[tuple[ir.Value, ir.TensorProtocol]]:
    """Return the initializers with their tensors, including those of subgraphs."""
    values = (value for graph in model.graphs() for value in graph.initializers.values())
    return [(value, value.const_value) for value in values if value.const_value is not None]


def weight_bytes(model: ir.Model) -> int:
    """Return the size of all initializers, in bytes."""
    return sum(tensor.nbytes for _, tensor in weights(model))


def strip_machine_metadata(model: ir.Model) -> None:
    """Remove metadata that depends on the machine and directory of the export."""
    for node in model.graph.all_nodes():
        for key in _MACHINE_METADATA:
            node.metadata_props.pop(key, None)


def save(model: ir.Model, path: Path | str, *, external_above: int = EXTERNAL_ABOVE_BYTES) -> None:
    """Write a model, with ``<name>.data`` beside it if its weights exceed ``external_above`` bytes.

    Both files are written completely under temporary names in the same directory and then renamed. External data that
    is in this directory already is referenced; external data elsewhere is copied, one tensor at a time.

    Raises:
        UsageError: If the path is not a regular file, or the directory cannot be written to.
    """
    path = Path(path)
    _refuse_other_than_file(path)
    on_disk = [tensor for _, tensor in weights(model) if isinstance(tensor, ir.ExternalTensor)]
    stays = bool(on_disk) and all(_is_inside(tensor, path.parent) for tensor in on_disk)
    size, size_on_disk = weight_bytes(model), sum(tensor.nbytes for tensor in on_disk)
    refers = stays and size - size_on_disk <= external_above
    copies = size > external_above or size_on_disk > _INLINE_BELOW_BYTES
    external = f"{path.name}.data" if copies and not refers else None
    with writing(path.parent) as scratch:
        try:
            if external or refers:
                ir.save(model, scratch / path.name, external_data=external)
            elif not _is_binary(path):
                with _read_in(value for value, _ in weights(model)):
                    ir.save(model, scratch / path.name)
            else:
                in_subgraphs = [value for value, _ in weights(model) if value.graph is not model.graph]
                with _read_in(in_subgraphs), (scratch / path.name).open("wb") as file:
                    inline_weights.write_with_weights(model, file)
        except ir.serde.SerdeError as error:  # such as a name that is not UTF-8, which protobuf reads and cannot write
            raise UsageError(f"{path.name} cannot be written: {first_line(root_cause(error))}") from error
        if external is not None:
            (scratch / external).replace(path.parent / external)
        (scratch / path.name).replace(path)


def _is_binary(path: Path) -> bool:
    """Whether the name of a file stands for protobuf's wire format, not for one of its text formats."""
    return onnx.serialization.registry.get_format_from_file_extension(path.suffix) in (None, "protobuf")


def _is_inside(tensor: ir.ExternalTensor, directory: Path) -> bool:
    """Whether the tensor's location, taken relative to ``directory``, is the file of its data, and no model file."""
    if tensor.meta.get(_IN_PLACE):
        return False
    return (directory / tensor.location).resolve() == Path(tensor.path).resolve()


def check_writable(path: Path) -> None:
    """Check, before any work is done, that an output file can be written.

    Raises:
        UsageError: If the path is not a regular file or holds something other than a model, or its directory cannot be
            written to.
    """
    _refuse_other_than_file(path)
    replaced.check_model(path)
    with writing(path.parent):
        pass


def _refuse_other_than_file(path: Path) -> None:
    """Refuse a directory or special file. Writing renames over the path, which would remove a device like /dev/null."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name the ONNX file to write")
    if str(path) == "-":
        raise UsageError("a model is not written to standard output: name the ONNX file to write")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file: name the ONNX file to write")


def leave_weights_in(path: Path, model: ir.Model) -> None:
    """Leave the weights of a model to a file that it was saved to, if they are in memory."""
    stored = {value.name: value.const_value for value in read(path).graph.initializers.values()}
    for name, value in model.graph.initializers.items():
        if not isinstance(value.const_value, ir.ExternalTensor) and isinstance(stored[name], ir.ExternalTensor):
            value.const_value = stored[name]


def read_weights_in(model: ir.Model, directory: Path) -> None:
    """Read the weights that are in files of a directory into memory, so that the model outlives the directory."""
    for value in [value for value, _ in weights(model)]:  # a list of tensors would keep the mappings of all
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor) and Path(tensor.path).is_relative_to(directory):
            value.const_value = _read_without_mapping(tensor)


def _read_without_mapping(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    """Read a tensor into memory; a mapping of it would take the same memory once more."""
    if tensor.dtype.bitwidth < 8:  # several numbers share a byte
        (packed,) = convert_tensors_from_external([tensor])
        tensor.release()
        return packed
    shape = tensor.shape.numpy()
    array = np.fromfile(tensor.path, tensor.dtype.numpy(), math.prod(shape), offset=tensor.offset or 0)
    return ir.Tensor(
        array.reshape(shape),
        dtype=tensor.dtype,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


@contextmanager
def _read_in(initializers: Iterable[ir.Value]) -> Iterator[None]:
    """Hold external weights in memory, so that they are written inline without a reference to their file."""
    external = {v: v.const_value for v in initializers if isinstance(v.const_value, ir.ExternalTensor)}
    for value, tensor in zip(external, convert_tensors_from_external(list(external.values())), strict=True):
        value.const_value = tensor
    try:
        yield
    finally:
        for value, original in external.items():
            value.const_value = original


@contextmanager
def writing(directory: Path) -> Iterator[Path]:
    """Make a temporary directory inside ``directory``, on the same file system, and remove it on exit.

    Raises:
        UsageError: If ``directory`` cannot be made or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".ffn-export-", dir=directory))
    except OSError as error:
        raise plain_file.not_writable(directory, error) from error
    try:
        yield scratch
    except OSError as error:
        raise plain_file.not_writable(directory, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
