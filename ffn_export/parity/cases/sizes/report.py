"""The report on sizes. Plain data, stored with a result."""

from __future__ import annotations

from dataclasses import dataclass

from ffn_export.core.plain_data import PlainData


@dataclass(frozen=True)
class SizeUse:
    """A node where a size becomes a number or a condition.

    Attributes:
        node: Name of the node.
        operator: Operator type of the node.
        size: Expressions of sizes that the node uses, such as ``seq < 100``.
    """

    node: str
    operator: str
    size: str

    def __str__(self) -> str:
        return f"{self.size} at {self.node} ({self.operator})"


@dataclass(frozen=True)
class Sizes(PlainData):
    """Uses of sizes in a graph, and the sizes that it was not judged at.

    Attributes:
        uses: Nodes where sizes become numbers or conditions; empty if sizes are proven to shape data only.
        unknown: Reason why the graph could not be followed, so that nothing is proven; None if it was.
        left_out: Sizes that exceed the budget of drawn cases, starting with those that a use asks for.
        asked: Number of sizes left out that a use asks for.
    """

    uses: tuple[SizeUse, ...] = ()
    unknown: str | None = None
    left_out: tuple[str, ...] = ()
    asked: int = 0

    @property
    def proven(self) -> bool:
        """Whether sizes are proven to shape data only."""
        return not self.uses and self.unknown is None
