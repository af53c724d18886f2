"""Models saved once for all tests that only read them, copies for those that spoil them, and no network."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

from tests.exporter.hugging_face import models

Saved = Callable[[str], Path]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """The directory of a class's model, not to be changed."""
    root = tmp_path_factory.mktemp("models")
    return cache(lambda name: models.save(name, root / name))


@pytest.fixture
def copied(saved: Saved, tmp_path: Path) -> Saved:
    """A copy of it, to be changed."""
    return lambda name: Path(shutil.copytree(saved(name), tmp_path / name))


@pytest.fixture(autouse=True)
def _anew() -> None:
    """Export each model once, unlike the tests of the export itself: these are of what it is given."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may look for a file anywhere but in the directory."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"a connection was tried: {args} {kwargs}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
