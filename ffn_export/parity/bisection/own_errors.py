"""Measure the error of each part alone, and of the whole run at the same value.

Both graphs are cut at every pair of values and fed the numbers that the reference computes in its working dtype. The
reference's part maps these to the truth in float64, and to the baseline in the working dtype. A part's error thus
excludes errors of earlier parts, and its bound follows from the error of the same computation in that dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ffn_export.core.types import Array
from ffn_export.fusion_check.running import RefusedError
from ffn_export.parity.bisection.cuts import Cuts
from ffn_export.parity.bisection.judged_errors import own_error, truth_of, whole_error
from ffn_export.parity.bisection.result import Error
from ffn_export.parity.judging.imprecise_operators import imprecise_operators
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference import conditioning


@dataclass(frozen=True)
class Measured:
    """A pair of values with two errors of the suspect's value: of the part alone, and in the whole run."""

    value: str
    counterpart: str
    own: Error
    whole: Error | None


@dataclass(frozen=True)
class OwnErrors:
    """Measures every part of a suspect on one case.

    Attributes:
        cuts: Both graphs, cut at all pairs.
        tolerances: Allowed errors.
        ill_conditioned: Whether a bound includes the conditioning of the part.
    """

    cuts: Cuts
    tolerances: Tolerances
    ill_conditioned: bool

    def measure(self) -> tuple[Measured, ...]:
        """Return an entry for each pair, in the order of the suspect.

        Raises:
            RefusedError: If the reference does not run.
        """
        order = [name for name, _ in self.cuts.pairs.in_order(self.cuts.suspect.graph)]
        return tuple(found for chunk in self.cuts.chunks(order) for found in self._measured(chunk))

    def _measured(self, names: list[str]) -> Iterator[Measured]:
        counterparts = [self.cuts.pairs.values[name] for name in names]
        recorded = self.cuts.recorded(names)
        truths, baselines, moved = self._truths(counterparts, recorded)
        alone = self.cuts.runs.parts(self.cuts.suspect, self.cuts.given(recorded), names)
        try:
            wholes: Mapping[str, Array] = self.cuts.runs.whole(self.cuts.suspect, names)
        except RefusedError:
            wholes = {}
        for name, counterpart in zip(names, counterparts, strict=True):
            actual = alone[name]
            own = (
                Error(problem=f"the runtime refuses it: {actual}", factor=math.inf)
                if isinstance(actual, str)
                else own_error(
                    name,
                    actual,
                    truths[counterpart],
                    baselines[counterpart],
                    self.tolerances,
                    moved.get(counterpart, 0.0),
                    excused=self._is_imprecise(name),
                )
            )
            whole = whole_error(wholes[name], recorded[counterpart]) if name in wholes else None
            yield Measured(name, counterpart, own, whole)

    def _truths(
        self, counterparts: Sequence[str], recorded: Mapping[str, Array]
    ) -> tuple[Mapping[str, Array], Mapping[str, Array], Mapping[str, float]]:
        """Return the truth, the baseline and the conditioning of each value of the reference."""
        baselines = self.cuts.runs.part(self.cuts.reference, recorded, counterparts)
        oracle = self.cuts.runs.oracle(self.cuts.reference, recorded, counterparts)
        truths = None if oracle is None else oracle.run()
        if oracle is None or truths is None:
            return {name: truth_of(array) for name, array in baselines.items()}, baselines, {}
        moved = conditioning.movement(oracle, oracle.given, truths, 0) if self.ill_conditioned else {}
        return truths, baselines, moved

    def _is_imprecise(self, name: str) -> bool:
        region = self.cuts.suspect.graph.between(name, self.cuts.pairs.values)
        return bool(imprecise_operators(region.nodes, self.cuts.suspect.runtime.name))
