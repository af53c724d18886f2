"""Cut two graphs at pairs of values, and feed both the same numbers there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.inspection.regions import weights
from ffn_export.parity.bisection.graph import Region
from ffn_export.parity.bisection.pairs import Pairs
from ffn_export.parity.bisection.runs import Runs, Side


@dataclass(frozen=True)
class Cuts:
    """A suspect and its reference, cut at all pairs.

    Attributes:
        suspect: The graph under test.
        reference: The graph that the suspect should agree with.
        pairs: Pairs that both graphs are cut at.
        runs: Runs of both graphs and their parts.
    """

    suspect: Side
    reference: Side
    pairs: Pairs
    runs: Runs

    def part(self, name: str) -> Region:
        """Return the region of the suspect that computes a value from the pairs before it."""
        return self.suspect.graph.between(name, self.pairs.values)

    def instead_of(self, counterpart: str) -> Region:
        """Return the region of the reference that computes a value from the pairs before it."""
        return self.reference.graph.between(counterpart, self.pairs.taken)

    def chunks(self, names: Iterable[str]) -> Iterator[list[str]]:
        """Split values of the suspect into chunks of bounded memory, for values and for weights."""

        def sizes(name: str) -> tuple[int, int]:
            region = self.part(name)
            # One copy each for the suspect's part and whole, the reference's whole and part, and two for float64.
            size = 6 * sum(map(self.runs.byte_size, (self.suspect.graph.values[name], *region.given)))
            read = weights(region.nodes)
            return size, sum(weight.const_value.nbytes for weight in read if weight.const_value is not None)

        return self.runs.split(names, sizes)

    def recorded(self, names: Iterable[str]) -> dict[str, Array]:
        """Return numbers that the reference computes, by its names.

        Args:
            names: Values of the suspect. The result holds their counterparts, and all values that either graph reads
                to compute them alone.

        Raises:
            RefusedError: If the reference does not run.
        """
        wanted = dict[str, None]()
        for name in names:
            wanted.update(dict.fromkeys(self._counterparts(name)))
        return {**self.reference.feeds, **self.runs.whole(self.reference, list(wanted))}

    def given(self, recorded: Mapping[str, Array]) -> dict[str, Array]:
        """Return recorded numbers under the suspect's names and in its dtypes."""
        found = dict(self.suspect.feeds)
        for name, counterpart in self.pairs.values.items():
            if counterpart in recorded:
                found[name] = cast(recorded[counterpart], self.suspect.graph.values[name].dtype)
        return found

    def _counterparts(self, name: str) -> Iterator[str]:
        pairs = self.pairs.values
        yield from (pairs[value.name] for value in self.part(name).given if value.name in pairs)
        if name in pairs:
            yield pairs[name]
            given = (str(value.name) for value in self.instead_of(pairs[name]).given)
            yield from (each for each in given if each in self.reference.graph.values)


def cast(array: Array, dtype: ir.DataType | None) -> Array:
    """Return an array in the dtype that a graph states for it, if any."""
    return array if dtype is None else array.astype(dtype.numpy(), copy=False)
