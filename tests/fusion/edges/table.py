"""All edges, by theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.fusion.edges import activations, linears, norms, residuals, structures
from tests.fusion.edges.edge import Edge

THEMES: Mapping[str, Callable[[], Iterator[Edge]]] = {
    "activations": activations.edges,
    "norms": norms.edges,
    "residuals": residuals.edges,
    "linears": linears.edges,
    "structures": structures.edges,
}
