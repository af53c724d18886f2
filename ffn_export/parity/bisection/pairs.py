"""Pairs of values: one of the suspect and its counterpart in the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.bisection.result import Alignment


@dataclass
class Pairs:
    """Values of the suspect with their counterparts, each at most once.

    Attributes:
        inputs: Input of the suspect -> input of the reference.
        values: Computed value of the suspect -> computed value of the reference.
        by: Method that found the pairs.
        taken: Values of the reference that are paired.
    """

    inputs: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    by: Alignment = "names"
    taken: set[str] = field(default_factory=set)

    def add(self, value: str, counterpart: str) -> bool:
        """Pair two values, unless one of them is already paired; return whether they were."""
        if value in self.values or counterpart in self.taken:
            return False
        self.values[value] = counterpart
        self.taken.add(counterpart)
        return True

    def counterpart(self, value: str) -> str | None:
        """Return the counterpart of an input or of a computed value."""
        return self.values.get(value) or self.inputs.get(value)

    def in_order(self, graph: Graph) -> Iterator[tuple[str, str]]:
        """Yield the pairs of computed values in the order of the suspect."""
        return ((name, self.values[name]) for name in graph.values if name in self.values)


def of_interface(suspect: Graph, reference: Graph) -> Pairs:
    """Pair inputs and outputs by name, and the rest by position."""
    names = [[str(value.name) for value in graph.inputs] for graph in (suspect, reference)]
    pairs = Pairs(dict(_matched(*names)))
    outputs = [[str(v.name) for v in graph.outputs if v.name in graph.values] for graph in (suspect, reference)]
    for value, counterpart in _matched(*outputs):
        pairs.add(value, counterpart)
    return pairs


def by_name(suspect: Graph, reference: Graph) -> Pairs:
    """Pair inputs and outputs, then values with the same name. Dtypes are compared later."""
    pairs = of_interface(suspect, reference)
    for name in suspect.values:
        if name in reference.values:
            pairs.add(name, name)
    return pairs


def _matched(mine: list[str], theirs: list[str]) -> Iterator[tuple[str, str]]:
    yield from ((name, name) for name in mine if name in theirs)
    rest = [name for name in theirs if name not in mine]
    yield from zip((name for name in mine if name not in theirs), rest, strict=False)
