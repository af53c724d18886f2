"""All edges, by theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.fusion.edges import activations, damaged, linears, norms, residuals, scopes, structures
from tests.fusion.edges.edge import Edge

THEMES: Mapping[str, Callable[[], Iterator[Edge]]] = {
    "activations": activations.edges,
    "norms": norms.edges,
    "residuals": residuals.edges,
    "linears": linears.edges,
    "scopes": scopes.edges,
    "damaged": damaged.edges,
    "structures": structures.edges,
}
