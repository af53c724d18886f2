"""The error of each part alone, and of the whole run at its value.

Both graphs are cut at every pair of values and given the same numbers there: those that the reference computes
in its working dtype. What the reference's part makes of them in float64 is the truth, and what it makes of them
in the working dtype the baseline. So a part's error holds nothing that came before it, and its budget is what the
same computation costs in that dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ffn_export.core.types import Array
from ffn_export.fusion_check.running import RefusedError
from ffn_export.parity.bisection.cuts import Cuts
from ffn_export.parity.bisection.judged_errors import own_error, truth_of, whole_error
from ffn_export.parity.bisection.pairs import Pairs
from ffn_export.parity.bisection.result import Error
from ffn_export.parity.bisection.runs import Runs, Side
from ffn_export.parity.judging.imprecise_operators import imprecise_among
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference import conditioning


@dataclass(frozen=True)
class Measured:
    """A pair of values, and how far the suspect's is off: its part alone, and in the whole run."""

    value: str
    counterpart: str
    own: Error
    whole: Error | None


class OwnErrors:
    """Measures every part of a suspect on one case.

    Args:
        suspect: The graph on trial.
        reference: What it should compute.
        pairs: Where both are cut.
        runs: Runs them.
        tolerances: What is allowed.
        ill_conditioned: Whether a budget includes how far rounding what a part is given moves its truth.
    """

    def __init__(
        self,
        suspect: Side,
        reference: Side,
        pairs: Pairs,
        runs: Runs,
        tolerances: Tolerances,
        *,
        ill_conditioned: bool = False,
    ) -> None:
        self._suspect = suspect
        self._reference = reference
        self._pairs = pairs
        self._cuts = Cuts(suspect, reference, pairs, runs)
        self._runs = runs
        self._tolerances = tolerances
        self._ill_conditioned = ill_conditioned

    def measure(self) -> tuple[Measured, ...]:
        """Return an entry for each pair, in the order of the suspect.

        Raises:
            RefusedError: The reference does not run.
        """
        order = [name for name, _ in self._pairs.in_order(self._suspect.graph)]
        return tuple(found for chunk in self._cuts.chunks(order) for found in self._measured(chunk))

    def _measured(self, names: list[str]) -> Iterator[Measured]:
        counterparts = [self._pairs.values[name] for name in names]
        recorded = self._cuts.recorded(names)
        truths, baselines, moved = self._truths(counterparts, recorded)
        alone = self._runs.parts(self._suspect, self._cuts.given(recorded), names)
        try:
            wholes: Mapping[str, Array] = self._runs.whole(self._suspect, names)
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
                    self._tolerances,
                    moved.get(counterpart, 0.0),
                    excused=self._is_imprecise(name),
                )
            )
            whole = whole_error(wholes[name], recorded[counterpart]) if name in wholes else None
            yield Measured(name, counterpart, own, whole)

    def _truths(
        self, counterparts: Sequence[str], recorded: Mapping[str, Array]
    ) -> tuple[Mapping[str, Array], Mapping[str, Array], Mapping[str, float]]:
        """Return the truth, the baseline, and how far rounding moves the truth, of each value of the reference."""
        baselines = self._runs.part(self._reference, recorded, counterparts)
        oracle = self._runs.oracle(self._reference, recorded, counterparts)
        truths = None if oracle is None else oracle.run()
        if oracle is None or truths is None:
            return {name: truth_of(array) for name, array in baselines.items()}, baselines, {}
        moved = conditioning.movement(oracle, oracle.given, truths, 0) if self._ill_conditioned else {}
        return truths, baselines, moved

    def _is_imprecise(self, name: str) -> bool:
        region = self._suspect.graph.between(name, self._pairs.values)
        return bool(imprecise_among(region.nodes, self._suspect.runtime.name))
