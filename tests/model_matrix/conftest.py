"""The engines of a matrix: this process, as in all tests, or the processes that users get."""

from __future__ import annotations

import pytest

from ffn_export.model_matrix import run
from ffn_export.model_matrix.processes import Processes
from tests.model_matrix.here import Here


@pytest.fixture
def here() -> type[Here]:
    Here.done.clear()
    return Here


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do steps in processes of their own, as users get them."""
    monkeypatch.setattr(run, "Processes", Processes)
