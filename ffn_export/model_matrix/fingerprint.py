"""Hashes of everything that decides a cell, so that work that is done and unchanged is not done again."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from ffn_export import __version__
from ffn_export.core import wire_format
from ffn_export.core.processor import processor_name
from ffn_export.model_matrix.entries import TIMED, Entry
from ffn_export.runtimes.environment import current

# Keys that decide nothing within a cell, or that the cell names itself.
_NOT_DECIDING = frozenset({"targets", "dtypes", "runtimes", "processors"})


def source_key(entry: Entry, dtype: str | None) -> str:
    """Return the hash of what decides the export of a model; cells with one hash share it."""
    given = {name: getattr(entry, name) for name in ("spec", "seed", "keep_io", "task", "trust", "opset", "samples")}
    return digest({**given, "inputs": entry.given_inputs, "dtype": dtype})


def content(entry: Entry) -> str:
    """Return the hash of the files that a model consists of, its code included; a preset is part of the tool."""
    files = [Path(path) for path in (entry.samples, entry.against) if path is not None and Path(path).is_file()]
    digest = hashlib.sha256()
    for path in sorted([*model_files(entry), *files]):
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def model_files(entry: Entry) -> list[Path]:
    """Return the files of a model: with external data, the whole directory, or the code of a factory."""
    path = Path(entry.spec.removeprefix("hf:"))
    if path.is_dir():
        return [each for each in path.rglob("*") if each.is_file()]
    if entry.is_file:
        named = {path.parent / tensor.location for tensor in wire_format.external_tensors(path)}
        return [path, *(each for each in named if each.is_file())]
    if path.is_file():
        return [path]
    return _code(entry.spec.partition(":")[0]) if ":" in entry.spec else []


def _code(module: str) -> list[Path]:
    """Return the source of a module without importing it: all of its package, or of its file."""
    root = Path(*module.split(".")[:1])
    if root.is_dir():  # a package of the current directory
        return list(root.rglob("*.py"))
    if root.with_suffix(".py").is_file():
        return [root.with_suffix(".py")]
    try:
        found = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return []
    if found is None or found.origin is None:
        return []
    origin = Path(found.origin)
    return list(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]


def cell_key(
    entry: Entry, files: str, dtype: str | None, target: str, runtime: str | None, kind: str | None, threads: int
) -> str:
    """Return the hash of everything that decides a cell.

    ``files`` is the :func:`content` of the model. Without a kind of node, the processor is this machine's. Threads
    decide timings only.
    """
    options = {name: value for name, value in asdict(entry).items() if name not in _NOT_DECIDING}
    cell = {"dtype": dtype, "target": target, "runtime": runtime, "files": files}
    place = {"tool": __version__, "versions": current(1).versions, "processor": kind or processor_name()}
    return digest({**options, **cell, **place, "threads": threads if entry.action in TIMED else None})


def made(path: Path) -> str | None:
    """Return the hash of a bundle's manifest or of a file; None if it is not there."""
    file = path / "manifest.json" if path.is_dir() else path
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def digest(data: object) -> str:
    """Return the hash of plain data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, Iterable) else str(value)
