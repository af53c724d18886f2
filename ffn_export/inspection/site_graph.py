"""The nodes of a site before and after it was fused, as a graph to draw. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

PlaceKind = Literal["input", "operator", "output"]


@dataclass(frozen=True)
class Place:
    """A box of the drawing.

    Attributes:
        kind: What it stands for: a value that comes in, a node, or a value that goes on.
        label: Name of the value, or the operator, with its domain where that is not the standard's.
        details: What a node reads besides: shapes of weights, numbers, attributes.
    """

    kind: PlaceKind
    label: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorGraph:
    """Boxes in the order of the data, and which leads to which.

    Attributes:
        places: The boxes.
        edges: ``(from, to)``, as indices into ``places``; a value that is read twice by one node leads there once.
    """

    places: tuple[Place, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, in the order of the data."""
        return tuple(place.label for place in self.places if place.kind == "operator")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OperatorGraph:
        """Read what :meth:`SiteGraph.to_dict` wrote."""
        places = tuple(Place(p["kind"], p["label"], tuple(p["details"])) for p in data["places"])
        edges = tuple((source, target) for source, target in data["edges"])
        if not all(0 <= source < target < len(places) for source, target in edges):
            raise ValueError("an edge leads from no box to a later one")
        return cls(places, edges)


@dataclass(frozen=True)
class SiteGraph:
    """Sites that looked alike before and look alike now.

    Attributes:
        sites: Their identifiers in the fusion report; a sum and its norm in one node are two sites.
        before: Their nodes in the model that was fused.
        after: Their nodes in what was made of it.
    """

    sites: tuple[str, ...]
    before: OperatorGraph
    after: OperatorGraph

    @property
    def kinds(self) -> tuple[str, ...]:
        """What they are, as the fusion report calls it."""
        return tuple(dict.fromkeys(site.partition(":")[0] for site in self.sites))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SiteGraph:
        """Read what :meth:`to_dict` wrote."""
        before, after = OperatorGraph.from_dict(data["before"]), OperatorGraph.from_dict(data["after"])
        return cls(tuple(data["sites"]), before, after)
