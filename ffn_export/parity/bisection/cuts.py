"""Two graphs that are cut at pairs of values, and the numbers that both are given there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.parity.bisection.graph import weights_of
from ffn_export.parity.bisection.pairs import Pairs
from ffn_export.parity.bisection.runs import Runs, Side


class Cuts:
    """A suspect and its reference, cut at all pairs."""

    def __init__(self, suspect: Side, reference: Side, pairs: Pairs, runs: Runs) -> None:
        self._suspect = suspect
        self._reference = reference
        self._pairs = pairs
        self._runs = runs

    def chunks(self, names: Iterable[str]) -> Iterator[list[str]]:
        """Split values of the suspect so that what a chunk takes, values as well as weights, is bounded."""
        chunk, values, weights = list[str](), 0, 0
        for name in names:
            region = self._suspect.graph.between(name, self._pairs.values)
            # Once each: in the suspect alone and whole, in the reference whole and alone, and in float64.
            size = 6 * sum(map(self._runs.byte_size, (self._suspect.graph.values[name], *region.given)))
            stored = sum(weight.const_value.nbytes for weight in weights_of(region) if weight.const_value is not None)
            if chunk and max(values + size, weights + stored) > self._runs.most_bytes:
                yield chunk
                chunk, values, weights = [], 0, 0
            chunk.append(name)
            values, weights = values + size, weights + stored
        if chunk:
            yield chunk

    def recorded(self, names: Iterable[str]) -> dict[str, Array]:
        """Return the reference's own numbers, by its names.

        Args:
            names: Values of the suspect. The numbers are those of their counterparts, and all that either graph
                needs to compute these alone.

        Raises:
            RefusedError: The reference does not run.
        """
        wanted = dict[str, None]()
        for name in names:
            wanted.update(dict.fromkeys(self._counterparts(name)))
        return {**self._reference.feeds, **self._runs.whole(self._reference, list(wanted))}

    def given(self, recorded: Mapping[str, Array]) -> dict[str, Array]:
        """Return these numbers under the suspect's names, in the suspect's dtypes."""
        found = dict(self._suspect.feeds)
        for name, counterpart in self._pairs.values.items():
            if counterpart in recorded:
                found[name] = cast(recorded[counterpart], self._suspect.graph.values[name].dtype)
        return found

    def _counterparts(self, name: str) -> Iterator[str]:
        pairs, reference = self._pairs.values, self._reference.graph
        for value in self._suspect.graph.between(name, pairs).given:
            if value.name in pairs:
                yield pairs[value.name]
        if name in pairs:
            yield pairs[name]
            given = reference.between(pairs[name], self._pairs.taken).given
            yield from (str(value.name) for value in given if value.name in reference.values)


def cast(array: Array, dtype: ir.DataType | None) -> Array:
    """Return an array in the dtype that a graph states for it, if it states one."""
    return array if dtype is None else array.astype(dtype.numpy(), copy=False)
