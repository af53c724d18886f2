"""Finds the tests of a module: those in the folder of its path, and those that import it."""

from __future__ import annotations

import ast
from pathlib import Path


def tests_of(file: str, root: Path) -> list[str]:
    """Return the test files of a module; helpers of tests lead from an import to the tests that use them."""
    folder = root / "tests" / Path(file).parent.relative_to("ffn_export")
    imports = {path: _imports(path) for path in (root / "tests").rglob("*.py") if path.name != "conftest.py"}
    wanted, reached = {_module(file)}, set[Path]()
    while new := {path for path, names in imports.items() if names & wanted} - reached:
        reached |= new
        wanted |= {_module(path.relative_to(root).as_posix()) for path in new}
    found = {*folder.rglob("test_*.py"), *(path for path in reached if path.name.startswith("test_"))}
    return sorted(path.relative_to(root).as_posix() for path in found)


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
