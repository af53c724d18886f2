"""Dataclasses as plain data, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from ffn_export.core.json_text import json_text
from ffn_export.core.plain_data import PlainData


@dataclass(frozen=True)
class Part(PlainData):
    error: float
    kind: Literal["node", "graph"] = "node"
    index: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.error < 0:
            raise ValueError("an error is not below 0")


@dataclass(frozen=True)
class Whole(PlainData):
    parts: tuple[Part, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    best: Part | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "count": len(self.parts)}


def test_what_is_written_is_read_again() -> None:
    whole = Whole((Part(math.inf), Part(0.5, "graph", (1, 2))), {"batch": 2}, frozenset("ba"), Part(1))
    data = json.loads(json_text(whole.to_dict()))
    assert (data["names"], data["count"], data["parts"][0]["error"]) == (["a", "b"], 2, "Infinity")
    assert Whole.from_dict(data) == whole
    assert math.isnan(Part.from_dict({"error": "NaN"}).error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "missing required field `parts`"),
        ({"parts": 3}, r"Expected `array`, got `int` - at `\$\.parts`"),
        ({"parts": [{"error": "much"}]}, r"Expected `float`, got `str` - at `\$\.parts\[0\]\.error`"),
        ({"parts": [{"error": -1}]}, "an error is not below 0"),
        ({"parts": [{"error": 1, "kind": "edge"}]}, "Invalid enum value 'edge'"),
        ({"parts": [], "sizes": {"batch": 1.5}}, "Expected `int`, got `float`"),
        ({"parts": [], "best": [1]}, "Expected `object | null`, got `array`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_wrong_data_is_named(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Whole.from_dict(data)
