"""Open a model as a file: an ONNX model in memory, an ``.onnx`` file, or the graph of a bundle for this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
import torch

from ffn_export.bundle.integrity import check as check_integrity
from ffn_export.bundle.manifest import MANIFEST, MODEL, Manifest, read_manifest
from ffn_export.core import onnx_file, processor
from ffn_export.errors import UsageError
from ffn_export.runtimes.session_options import SessionSettings

Model = ir.Model | onnx.ModelProto | Path | str
"""An ONNX model in memory, an ``.onnx`` file, or a bundle."""


@dataclass(frozen=True)
class OpenModel:
    """An ONNX file, with the session options and manifest of its bundle.

    Attributes:
        path: The file; for a model in memory, a temporary file that is removed on exit.
        settings: Session options.
        directory: Directory of the bundle; None if the model is no bundle.
        manifest: Manifest of the bundle; None if the model is no bundle.
        in_memory: The model, if it was given in memory.
        in_place: Whether weights stay in the file until they are needed.
    """

    path: Path
    settings: SessionSettings
    directory: Path | None = None
    manifest: Manifest | None = None
    in_memory: ir.Model | None = None
    in_place: bool = False

    def load(self) -> ir.Model:
        """Return the model; its weights stay readable after exit, unless they stay in the file."""
        return onnx_file.load(self.path, in_place=self.in_place) if self.in_memory is None else self.in_memory


@contextmanager
def opened(model: Model, *, in_place: bool = False) -> Iterator[OpenModel]:
    """Open a model as a file: check a bundle, take a file as it is, save a model in memory to a temporary file.

    Args:
        model: The model.
        in_place: Whether weights stay in the file until they are needed.

    Raises:
        UsageError: If the model is none of these, does not exist, or does not parse.
        IntegrityError: If the files of a bundle differ from its manifest.
    """
    if isinstance(model, onnx.ModelProto):
        model = onnx_file.from_proto(model)
    if isinstance(model, ir.Model):
        with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
            path = Path(scratch) / MODEL
            onnx_file.save(model, path)
            yield OpenModel(path, SessionSettings(), in_memory=model)
        return
    if not isinstance(model, str | Path):
        meant = "a module is what it is compared with" if isinstance(model, torch.nn.Module) else "pass one of them"
        raise UsageError(f"{type(model).__name__} is no ONNX model, file or bundle: {meant}")
    path = Path(model)
    if path.is_dir():
        if not (path / MANIFEST).is_file():  # bad input, not the IntegrityError of a modified bundle
            raise UsageError(f"{path} is no bundle: it has no {MANIFEST}")
        manifest = read_manifest(path)
        check_integrity(path, manifest)
        graph = manifest.graph_for(processor.kind())
        yield OpenModel(path / graph.file, graph.manifest.session_options, path, graph.manifest, in_place=in_place)
        return
    onnx_file.load(path, in_place=in_place)
    yield OpenModel(path, SessionSettings(), in_place=in_place)


def as_ir(model: Model) -> ir.Model:
    """Return a model as onnx-ir; one in memory is not copied.

    Raises:
        UsageError: As for :func:`opened`.
        IntegrityError: If the files of a bundle differ from its manifest.
    """
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, onnx.ModelProto):
        return onnx_file.from_proto(model)
    with opened(model) as file:
        return file.load()
