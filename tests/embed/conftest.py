"""Bundles and examples, made once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.embed.bundles import build
from tests.embed.programs import PROGRAMS, Once, Program


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Give a directory of a name, which the first process that asks for it fills."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "embed"
    shared.mkdir(exist_ok=True)

    def make(name: str, fill: Callable[[Path], None]) -> Path:
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            directory, filled = shared / name, shared / f"{name}.filled"
            if not filled.exists():
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
                fill(directory)
                filled.touch()
        return directory

    return make


@pytest.fixture(scope="session")
def bundle(once: Once) -> Callable[[str], Path]:
    """Return one of the bundles, by its name."""
    return lambda name: once(name, lambda directory: build(name, directory / "bundle")) / "bundle"


@pytest.fixture(scope="session", params=PROGRAMS)
def program(request: pytest.FixtureRequest, once: Once) -> Program:
    """Each example in turn; it is skipped where it cannot be made."""
    return PROGRAMS[request.param](once)
