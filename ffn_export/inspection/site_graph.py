"""Nodes of a site before and after fusing, as a graph to draw; plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

PlaceKind = Literal["input", "operator", "output"]


@dataclass(frozen=True)
class Place:
    """A box of the drawing.

    Attributes:
        kind: ``input`` or ``output`` for a value that enters or leaves the site, ``operator`` for a node.
        label: ``input`` or ``output``, numbered if there are several, or the operator, with its domain if it is not a
            standard one.
        details: Constants and attributes of a node: shapes of weights, numbers.
    """

    kind: PlaceKind
    label: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorGraph:
    """Boxes in topological order, and the edges between them.

    Attributes:
        places: The boxes.
        edges: ``(from, to)`` as indices into ``places``; a value that a node reads twice has one edge.
    """

    places: tuple[Place, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, in topological order."""
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
    """Sites with equal graphs before fusing and equal graphs after it.

    Attributes:
        sites: Identifiers in the fusion report; a sum and its norm in one node are two sites.
        before: Nodes of each site before fusing.
        after: Nodes of each site after fusing.
    """

    sites: tuple[str, ...]
    before: OperatorGraph
    after: OperatorGraph

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the sites, by the fusion report's names."""
        return tuple(dict.fromkeys(site.partition(":")[0] for site in self.sites))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SiteGraph:
        """Read what :meth:`to_dict` wrote."""
        before, after = OperatorGraph.from_dict(data["before"]), OperatorGraph.from_dict(data["after"])
        return cls(tuple(data["sites"]), before, after)
