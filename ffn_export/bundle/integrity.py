"""Hashes of a bundle's files, and the refusal of what lies outside of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir

from ffn_export.bundle.manifest import MANIFEST, MODEL, Manifest
from ffn_export.errors import IntegrityError


def hash_files(directory: Path) -> dict[str, str]:
    """Return path -> sha256 of every file in a bundle but the manifest itself."""
    files = sorted(p for p in directory.rglob("*") if p.is_file() and p.name != MANIFEST)
    return {path.relative_to(directory).as_posix(): _sha256(path) for path in files}


def check(directory: Path, manifest: Manifest, *, only: tuple[str, ...] | None = None) -> None:
    """Check files against the manifest, and that the model reads nothing from outside the bundle.

    Args:
        directory: The bundle.
        manifest: Its manifest.
        only: Files to hash; None means all. The model and its data are always among them.

    Raises:
        IntegrityError: On the first difference.
    """
    for name, expected in manifest.files.items():
        if only is not None and name not in only and not name.startswith(MODEL):
            continue
        path = _inside(directory, name)
        if not path.is_file():
            raise IntegrityError(f"{directory}: {name} is missing; build the bundle again")
        if _sha256(path) != expected:
            raise IntegrityError(f"{directory}: {name} is not the file that was verified (its sha256 differs)")
    _check_external_data(directory, manifest.files)


def _check_external_data(directory: Path, files: Mapping[str, str]) -> None:
    for location in _external_locations(ir.load(directory / MODEL)):
        _inside(directory, location)
        if Path(location).as_posix() not in files:
            raise IntegrityError(f"{directory}: {MODEL} reads {location!r}, which the manifest does not list")


def _external_locations(model: ir.Model) -> set[str]:
    graphs = (model.graph, *model.graph.subgraphs())
    stored = [value.const_value for graph in graphs for value in graph.initializers.values()]
    attributes = [a.value for node in model.graph.all_nodes() for a in node.attributes.values()]
    return {str(tensor.location) for tensor in (*stored, *attributes) if isinstance(tensor, ir.ExternalTensor)}


def _inside(directory: Path, name: str) -> Path:
    """Return the path of a bundle's file, links resolved.

    Raises:
        IntegrityError: If it lies outside the bundle.
    """
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise IntegrityError(f"{directory}: {name!r} lies outside the bundle")
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
