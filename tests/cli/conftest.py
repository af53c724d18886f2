"""Files that several commands are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

import ffn_export as fx
from ffn_export.reports import console


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a directory of the test's own: verify keeps failing inputs in the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bundle, not to be changed."""
    return fx.build("d2l-ffn-addnorm", directory=tmp_path_factory.mktemp("bundles"), bench_budget=0.001).directory


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print without wrapping, so that tests of words do not depend on the length of a temporary path."""
    monkeypatch.setattr(console, "MOST_COLUMNS", 10_000)
