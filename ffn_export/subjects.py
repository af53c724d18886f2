"""What a caller may hand to a verb, resolved: a module or a SPEC, a model in memory, a file, a bundle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from ffn_export.bundle.integrity import check as check_integrity
from ffn_export.bundle.manifest import MANIFEST, MODEL, Manifest, read_manifest
from ffn_export.errors import UsageError
from ffn_export.exporter import onnx_file, vectors
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.precision import convert
from ffn_export.exporter.samples import specs_of
from ffn_export.exporter.source import Source, from_module, knows_its_inputs, resolve, with_samples
from ffn_export.exporter.tensor_spec import InputSpecs
from ffn_export.parity.cases import as_feeds
from ffn_export.parity.references import OnnxReference, Reference, TorchReference, VectorReference, graph_inputs
from ffn_export.runtimes.session_options import SessionSettings

Subject = torch.nn.Module | str
Model = ir.Model | Path | str


@dataclass(frozen=True)
class OpenModel:
    """An ONNX file, with the settings and the manifest that came with it.

    Attributes:
        path: The file; of a model in memory a temporary one, which goes when it is closed.
        settings: Its session options.
        directory: The bundle that it is of.
        manifest: That bundle's.
        in_memory: The model that was given in place of a file.
    """

    path: Path
    settings: SessionSettings
    directory: Path | None = None
    manifest: Manifest | None = None
    in_memory: ir.Model | None = None

    def load(self) -> ir.Model:
        """Return the model, with weights that are there when it is closed, too."""
        return onnx_file.load(self.path) if self.in_memory is None else self.in_memory


@dataclass(frozen=True)
class Against:
    """What a model is to be compared with, as the caller named it; None leaves it to the bundle.

    The source that a bundle names is imported with ``trust`` alone, but for a preset.
    """

    subject: Subject | Path | None = None
    inputs: InputSpecs | None = None
    seed: int | None = None
    dtype: str = "float32"
    keep_io: bool = False
    task: str | None = None
    trust: bool = False


def as_source(
    subject: Subject,
    inputs: InputSpecs | None = None,
    samples: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    seed: int | None = None,
    task: str | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    trust: bool = False,
) -> Source:
    """Resolve a SPEC, or wrap a module that the caller holds.

    Raises:
        UsageError: If it does not resolve, a module comes without inputs, or a task is no model directory's.
    """
    arrays = None if samples is None else as_feeds(samples)
    if inputs is None and arrays is not None and not (isinstance(subject, str) and knows_its_inputs(subject)):
        inputs = specs_of(arrays)
    if isinstance(subject, str):
        source = resolve(subject, inputs, seed, task, trust=trust)
        source = source if name is None else replace(source, name=name)
    elif task is not None:
        raise UsageError("a task is for hf:DIR, a model directory, and not for a module: leave it out")
    elif inputs is None:
        raise UsageError('a module needs its inputs: pass inputs={"x": "float32[batch,seq,768]"}')
    else:
        source = from_module(subject, inputs, name)
    if arrays is not None:
        source = with_samples(source, arrays)
    return convert(source, dtype, keep_io=keep_io)


@contextmanager
def opened(model: Model) -> Iterator[OpenModel]:
    """Give a model as a file: a bundle's checked one, a file as it is, a model in memory for the while.

    Raises:
        UsageError: If it is none of these, there is no such file or bundle, or it does not parse.
        IntegrityError: If a bundle's files are not those of its manifest.
    """
    if isinstance(model, ir.Model):
        with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
            path = Path(scratch) / MODEL
            onnx_file.save(model, path)
            yield OpenModel(path, SessionSettings(), in_memory=model)
        return
    if not isinstance(model, str | Path):
        meant = "a module is what it is compared with" if isinstance(model, torch.nn.Module) else "pass one of them"
        raise UsageError(f"{type(model).__name__} is no ONNX file, bundle or onnx_ir.Model: {meant}")
    path = Path(model)
    if path.is_dir():
        if not (path / MANIFEST).is_file():  # no bundle is no bundle that was changed
            raise UsageError(f"{path} is no bundle: it has no {MANIFEST}")
        manifest = read_manifest(path)
        check_integrity(path, manifest)
        yield OpenModel(path / MODEL, manifest.session_options, path, manifest)
        return
    onnx_file.load(path)
    yield OpenModel(path, SessionSettings())


@contextmanager
def evaluating(source: Source | None) -> Iterator[None]:
    """Hold the module of a source, where there is one, in evaluation mode."""
    if source is None:
        yield
        return
    with evaluation_mode(source.module):
        yield


def known_source(file: OpenModel, against: Against) -> tuple[Source | None, str | None]:
    """Return the source, or none of a bundle whose own is not here, as where it is served, and why.

    Raises:
        UsageError: If what was named does not resolve.
    """
    try:
        return source_of(file, against), None
    except UsageError as error:
        if against.subject is not None or against.inputs is not None or file.directory is None:
            raise
        return None, str(error)


def reference_of(file: OpenModel, against: Against, threads: int) -> Reference:
    """Resolve what a model is verified against; a bundle whose source is not imported has its test vectors.

    Raises:
        UsageError: If what was named does not resolve, or nothing was and the model is no bundle.
    """
    subject = against.subject
    if isinstance(subject, Path) or (isinstance(subject, str) and subject.endswith(".onnx")):
        return OnnxReference(Path(subject), threads, against.inputs)
    source, why = known_source(file, against)
    if source is not None:
        return TorchReference(source, threads)
    if file.directory is None or file.manifest is None:
        raise UsageError(
            "name what to verify against: --against a preset, package.module:factory, hf:DIR or other.onnx"
        )
    expected = vectors.read(file.directory)
    return VectorReference(f"{file.directory.name}'s test vectors", file.manifest.inputs, *expected, why_alone=why)


def source_of(file: OpenModel, against: Against) -> Source | None:
    """Resolve what was named, else what a bundle says of its source; None where there is neither.

    Raises:
        UsageError: If what was named is no PyTorch source or does not resolve.
    """
    subject, inputs = against.subject, against.inputs
    if subject is None:
        if file.manifest is None or file.manifest.source["kind"] == "module":
            return None
        recorded = file.manifest.source
        # A bundle has the weights of its own seed. Its inputs are recorded as they were before a conversion to
        # another precision.
        source = resolve(
            recorded["spec"], inputs or recorded["inputs"], recorded["seed"], recorded.get("task"),
            trust=against.trust, named_by=f"the manifest of {file.path.parent.name}",
        )  # fmt: skip
        return convert(source, recorded["dtype"], keep_io=recorded["keep_io"])
    if isinstance(subject, Path):
        raise UsageError(f"{subject} is no PyTorch source")
    if inputs is None and (isinstance(subject, torch.nn.Module) or not knows_its_inputs(subject)):
        inputs = graph_inputs(onnx_file.load(file.path))
    return as_source(
        subject, inputs, seed=against.seed, task=against.task, dtype=against.dtype, keep_io=against.keep_io,
        trust=against.trust,
    )  # fmt: skip
