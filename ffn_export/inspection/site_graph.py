"""Nodes of a site before and after fusing, as a graph to draw; plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ffn_export.core.plain_data import PlainData

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

    def __post_init__(self) -> None:
        if not all(0 <= source < target < len(self.places) for source, target in self.edges):
            raise ValueError("an edge leads from no box to a later one")

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, in topological order."""
        return tuple(place.label for place in self.places if place.kind == "operator")


@dataclass(frozen=True)
class SiteGraph(PlainData):
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
