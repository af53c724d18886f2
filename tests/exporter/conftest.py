"""Tests of the exporter export anew each time."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _anew(exported_anew: None) -> None:
    """Take no graph that another test has exported."""
