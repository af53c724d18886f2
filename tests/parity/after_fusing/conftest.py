"""The faulty rules, for all tests here."""

from __future__ import annotations

from tests.parity.after_fusing.planted import plant

__all__ = ["plant"]
