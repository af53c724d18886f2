"""Small feed-forwards can have every form."""

from __future__ import annotations

import pytest

from ffn_export.fusion.forms.by_rows import row_chunks, split_hidden

CHUNK = 4


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split hidden layers of any width, and let chunks have four rows."""
    monkeypatch.setattr(split_hidden, "WIDE", 0)
    monkeypatch.setattr(row_chunks, "TOKENS", CHUNK)
