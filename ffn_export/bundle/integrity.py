"""Check the files of a bundle: their hashes, and that its graphs read no file outside the bundle."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ffn_export.bundle.manifest import MANIFEST, Manifest
from ffn_export.core import external_files, plain_file, vectors, wire_format
from ffn_export.errors import IntegrityError, UsageError


def hash_files(directory: Path) -> dict[str, str]:
    """Return path -> sha256 of every file in a bundle, except the manifest."""
    files = sorted(p for p in directory.rglob("*") if p.is_file() and p.name != MANIFEST)
    return {path.relative_to(directory).as_posix(): _sha256(path) for path in files}


def check(directory: Path, manifest: Manifest, *, graph: str | None = None) -> None:
    """Check files against the manifest, and that the graphs read only listed files.

    With ``graph``, only this graph is checked, with the files that it names.

    Raises:
        IntegrityError: On the first difference.
    """
    graphs = manifest.graphs if graph is None else [graph]
    for each in graphs:
        _check_hash(directory, manifest, each)
    named = {name: each for each in graphs for name in _named_by(directory, each)}
    for name, reader in sorted(named.items()):
        if name not in manifest.files:
            _inside(directory, name)
            raise IntegrityError(f"{directory}: {reader} reads {name!r}, which the manifest does not list")
    for path in sorted((directory / vectors.DIRECTORY).glob("*")) if graph is None else ():
        name = path.relative_to(directory).as_posix()
        if name not in manifest.files:
            raise IntegrityError(f"{directory}: the manifest does not list {name!r}, which it would be judged by")
    for name in manifest.files:
        if name not in graphs and (graph is None or name in named):
            _check_hash(directory, manifest, name)


def _check_hash(directory: Path, manifest: Manifest, name: str) -> None:
    path = _inside(directory, name)
    if name not in manifest.files:
        raise IntegrityError(f"{directory}: the manifest names the graph {name!r}, and does not list it as a file")
    if not path.is_file():
        raise IntegrityError(f"{directory}: {name} is missing; build the bundle again")
    if _sha256(path) != manifest.files[name]:
        raise IntegrityError(f"{directory}: {name} is not the file that was verified (its sha256 differs)")


def _named_by(directory: Path, graph: str) -> set[str]:
    path = directory / graph
    try:
        tensors = wire_format.external_tensors(path)
        named = external_files.locations(tensors)
        for name in named:
            _inside(directory, name)
        external_files.check(path, tensors)
    except UsageError as error:
        raise IntegrityError(str(error)) from error
    return named


def _inside(directory: Path, name: str) -> Path:
    """Return the path of a bundle's file, with links resolved.

    Raises:
        IntegrityError: If the file lies outside the bundle, or the name is not a valid path.
    """
    try:
        path = (directory / name).resolve()
        is_inside = path.is_relative_to(directory.resolve())
        path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long or has a NUL, or a loop of links
        raise IntegrityError(f"{directory}: {name[:200]!r} is the path of no file") from error
    if not is_inside:
        raise IntegrityError(f"{directory}: {name!r} lies outside the bundle")
    return path


def _sha256(path: Path) -> str:
    try:
        with plain_file.open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except UsageError as error:
        raise IntegrityError(str(error)) from error
