"""What is reported of sizes. Plain data, stored with a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SizeUse:
    """A place of a graph where a size becomes a number or a condition.

    Attributes:
        node: Name of the node.
        operator: Its operator.
        size: What is computed of sizes there, such as ``seq < 100``.
    """

    node: str
    operator: str
    size: str

    def __str__(self) -> str:
        return f"{self.size} at {self.node} ({self.operator})"


@dataclass(frozen=True)
class Sizes:
    """What sizes do in a graph, and at which it was not judged.

    Attributes:
        uses: Where sizes become numbers or conditions; empty where they are proven to shape data only.
        unknown: Why nothing is proven although no use is listed; None where the whole graph was followed.
        left_out: Sizes that the budget of drawn cases has no place for; those that a use asks for come first.
        asked: How many of those left out a use asks for.
    """

    uses: tuple[SizeUse, ...] = ()
    unknown: str | None = None
    left_out: tuple[str, ...] = ()
    asked: int = 0

    @property
    def proven(self) -> bool:
        """Whether sizes are proven to shape data only."""
        return not self.uses and self.unknown is None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sizes:
        """Read it from plain data."""
        uses = tuple(SizeUse(use["node"], use["operator"], use["size"]) for use in data["uses"])
        return cls(uses, data["unknown"], tuple(data["left_out"]), data["asked"])
