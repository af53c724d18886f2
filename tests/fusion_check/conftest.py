"""The faulty rules, for all tests here."""

from __future__ import annotations

from tests.fusion_check.planted import plant

__all__ = ["plant"]
