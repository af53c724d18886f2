"""Deterministic JSON text of results: fields in declaration order, the same bytes for the same result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ffn_export.core.plain_text import safe_json


def json_text(data: Mapping[str, Any]) -> str:
    """Return a result's ``to_dict()`` as JSON that every parser reads.

    JSON has no NaN and no infinity. They become the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as in
    protobuf's JSON. Python's ``float()`` reads these strings, and ``null`` could not tell them apart.
    """
    return safe_json(json.dumps(_with_named_nonfinites(data), indent=2, allow_nan=False)) + "\n"


def json_line(data: Mapping[str, Any]) -> str:
    """Return the same as one line, for JSON Lines."""
    return safe_json(json.dumps(_with_named_nonfinites(data), allow_nan=False)) + "\n"


def _with_named_nonfinites(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_named_nonfinites(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_named_nonfinites(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
