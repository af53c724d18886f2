"""Join bundles of one model, built on several kinds of processor: one directory with a graph for each, weights once."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export import __version__
from ffn_export.bundle import integrity, results, stored
from ffn_export.bundle.manifest import MODEL, Manifest, read_manifest, reports_of
from ffn_export.core import onnx_file, vectors
from ffn_export.core.drawing import float_info, is_floating
from ffn_export.core.fills import scales
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.exporter.export import PRODUCER
from ffn_export.runtimes.model_files import ModelFiles

_SAME_SOURCE = ("kind", "seed", "inputs", "dtype", "keep_io", "task", "files")
_REPORTS = (results.FUSION, stored.PARITY, stored.LATENCY, results.SITES, results.TUNING, results.PAGE)
_ROUNDINGS = 4  # in the dtype of an output: the oracle's last bit may depend on the processor


@dataclass(frozen=True)
class Part:
    """A graph to join.

    Attributes:
        directory: Its bundle.
        file: Its file there.
        manifest: Manifest of the bundle, with the entries of the graph.
    """

    directory: Path
    file: str
    manifest: Manifest


def read_parts(bundles: Sequence[Path]) -> list[Part]:
    """Return the graphs of bundles; the first is the default.

    Raises:
        UsageError: If there is one bundle only, two graphs are for one kind of processor, or a bundle is of another
            model than the first: its inputs, outputs, target or weights differ.
        IntegrityError: If a directory is no bundle, or a file differs.
    """
    if len(bundles) < 2:
        raise UsageError("there is nothing to join: name two bundles or more")
    parts: list[Part] = []
    for directory in bundles:
        if not directory.is_dir():
            raise UsageError(f"no such bundle: {directory}")
        manifest = read_manifest(directory)
        integrity.check(directory, manifest)
        for difference in _differences(parts[0], Part(directory, MODEL, manifest)) if parts else ():
            raise UsageError(f"{directory} is not of the same model as {parts[0].directory}: {difference}")
        parts += (Part(directory, file, each) for file, each in manifest.graphs.items())
    for number, part in enumerate(parts):
        for other in parts[:number]:
            if part.manifest.processor.label == other.manifest.processor.label:
                where = f"{other.directory} and {part.directory}"
                raise UsageError(f"{where} are for one kind of processor, {part.manifest.processor}: leave one out")
    return parts


def write_joined(parts: Sequence[Part], directory: Path, name: str) -> Manifest:
    """Write a bundle of these graphs into an empty directory, and return its manifest.

    Weights with equal bytes are written once, in a file that all graphs name. The default keeps its place, its test
    vectors and its reports; the reports of another graph are in a directory that is called after its processor.
    """
    first = parts[0]
    shutil.copytree(first.directory / vectors.DIRECTORY, directory / vectors.DIRECTORY)
    for companion in first.manifest.source.get("files", ()):
        if companion in first.manifest.files and Path(companion).name == companion:  # else it may lie elsewhere
            shutil.copyfile(first.directory / companion, directory / companion)
    files, known, variants = ModelFiles(directory, f"{MODEL}.data"), dict[_Content, ir.TensorProtocol](), {}
    for part in parts:
        file = MODEL if part is first else f"model-{part.manifest.processor.label}.onnx"
        model = onnx_file.load(part.directory / part.file)
        _share_weights(model, known)
        files.write(model).replace(directory / file)
        reports = reports_of(directory, file)
        reports.mkdir(exist_ok=True)
        for report in _REPORTS:
            path = reports_of(part.directory, part.file) / report
            if path.is_file():
                shutil.copyfile(path, reports / report)
        if part is not first:
            variants[file] = part.manifest.as_variant()
    manifest = replace(
        first.manifest,
        name=name,
        variants=variants,
        files=integrity.hash_files(directory),
        producer={"name": PRODUCER, "version": __version__},
    )
    manifest.write(directory)
    return manifest


_Content = tuple[ir.DataType, tuple[int, ...], bytes]


def _share_weights(model: ir.Model, known: dict[_Content, ir.TensorProtocol]) -> None:
    """Give each weight that an earlier model has too the tensor of that model, in place."""
    for value, tensor in onnx_file.weights(model):
        if tensor.dtype == ir.DataType.STRING:
            continue
        key = tensor.dtype, tuple(tensor.shape.numpy()), hashlib.sha256(tensor.tobytes()).digest()
        value.const_value = known.setdefault(key, tensor)
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()  # else all weights that were read stay mapped


def _differences(first: Part, part: Part) -> Iterator[str]:
    """Yield what shows that two bundles are not of one model."""
    one, other = first.manifest, part.manifest
    if one.inputs != other.inputs:
        yield "its inputs differ"
    if one.outputs != other.outputs:
        yield "its outputs differ"
    if one.target != other.target:
        yield f"its target is {other.target}"
    if one.provider != other.provider:
        yield f"its provider is {other.provider}"
    if one.provider_options != other.provider_options:
        yield f"the options of its provider are {dict(other.provider_options)}"
    for field in _SAME_SOURCE:
        if one.source.get(field) != other.source.get(field):
            yield f"{field} of its source is {other.source.get(field)}, not {one.source.get(field)}"
    for file in one.source.get("files", ()):
        if one.files.get(file) != other.files.get(file):
            yield f"its {file} differs"
    (inputs, outputs), (its_inputs, its_outputs) = vectors.read(first.directory), vectors.read(part.directory)
    if list(inputs) != list(its_inputs) or any(inputs[name].tobytes() != its_inputs[name].tobytes() for name in inputs):
        yield "its test vectors have other inputs"
    elif not all(_is_near(output, its_outputs.get(name)) for name, output in outputs.items()):
        yield "its weights differ, as PyTorch's outputs for the test vectors show"


def _is_near(one: Array, other: Array | None) -> bool:
    """Whether outputs of one module are equal, except for the rounding of their last bit."""
    if other is None or one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not is_floating(one):
        return np.array_equal(one, other)
    a, b = one.astype(np.float64), other.astype(np.float64)
    finite, unit = np.isfinite(a), _ROUNDINGS * float(float_info(one.dtype).eps)
    is_same = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    return is_same and all(np.allclose(a[at], b[at], rtol=0, atol=unit * scale) for at, scale in scales(a))
