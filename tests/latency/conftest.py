"""Tests of latency time for as long as they say."""

from __future__ import annotations

import pytest

from ffn_export.latency import measure
from ffn_export.latency.interleaving import interleave


@pytest.fixture(autouse=True)
def timed_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the time that a call asks for, where all other tests take a moment."""
    monkeypatch.setattr(measure, "interleave", interleave)
