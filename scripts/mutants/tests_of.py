"""Finds the tests of a module: those in the folder of its path, and those that import it or are named after a user."""

from __future__ import annotations

import ast
from pathlib import Path


def tests_of(file: str, root: Path) -> list[str]:
    """Return the test files of a module.

    They lie in the folder of its path, or in the nearest above it that has tests; they import it, also by way of
    helpers; or they are named after a module of the same part of the package that uses it, also by way of others.
    """
    found = set(_folder(file, root).rglob("test_*.py"))
    found |= {path for path in _users(file, root / "tests", root) if path.name.startswith("test_")}
    for user in _users(file, root.joinpath(*Path(file).parts[:2]), root):
        found |= set(_of_path(user.relative_to(root), root).glob(f"test_{user.stem}*.py"))
    return sorted(path.relative_to(root).as_posix() for path in found)


def _of_path(file: Path, root: Path) -> Path:
    return root / "tests" / file.parent.relative_to("ffn_export")


def _folder(file: str, root: Path) -> Path:
    """Return the folder of tests of a path; that of all tests is none of a part."""
    folder = _of_path(Path(file), root)
    while not folder.exists() and folder.parent != root / "tests":
        folder = folder.parent
    return folder


def _users(file: str, folder: Path, root: Path) -> set[Path]:
    """Return the files in a folder that import a module, also by way of one another."""
    imports = {path: _imports(path) for path in folder.rglob("*.py") if path.name != "conftest.py"}
    wanted, reached = {_module(file)}, set[Path]()
    while new := {path for path, names in imports.items() if names & wanted} - reached:
        reached |= new
        wanted |= {_module(path.relative_to(root).as_posix()) for path in new}
    return reached


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return names
