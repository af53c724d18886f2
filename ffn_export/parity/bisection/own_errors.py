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
from ffn_export.parity.judging.runtime_quirks import of_operators, of_runtime, on_values
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference import conditioning


@dataclass(frozen=True)
class Measured:
    """A pair of values with two errors of the suspect's value: of the part alone, and in the whole run."""

    value: str
    counterpart: str
    own: Error
    whole: Error | None


def own_errors(cuts: Cuts, tolerances: Tolerances, *, ill_conditioned: bool) -> tuple[Measured, ...]:
    """Return an entry for each pair, in the order of the suspect.

    Args:
        cuts: Both graphs, cut at all pairs.
        tolerances: Allowed errors.
        ill_conditioned: Whether a bound includes the conditioning of the part.

    Raises:
        RefusedError: If the reference does not run.
    """
    order = [name for name, _ in cuts.pairs.in_order(cuts.suspect.graph)]
    return tuple(found for chunk in cuts.chunks(order) for found in _measured(cuts, chunk, tolerances, ill_conditioned))


def _measured(cuts: Cuts, names: list[str], tolerances: Tolerances, ill_conditioned: bool) -> Iterator[Measured]:
    counterparts = [cuts.pairs.values[name] for name in names]
    recorded = cuts.recorded(names)
    truths, baselines, moved = _truths(cuts, counterparts, recorded, ill_conditioned=ill_conditioned)
    alone = cuts.runs.parts(cuts.suspect, cuts.given(recorded), names)
    try:
        wholes: Mapping[str, Array] = cuts.runs.whole(cuts.suspect, names)
    except RefusedError:
        wholes = {}
    for name, counterpart in zip(names, counterparts, strict=True):
        actual, nodes, runtime = alone[name], cuts.part(name).nodes, cuts.suspect.runtime.name
        # A part may get NaN in any case, from a mask or from a part before it.
        excuses = on_values("nan", of_runtime(runtime), of_operators(nodes))
        own = (
            Error(problem=f"the runtime refuses it: {actual}", factor=math.inf)
            if isinstance(actual, str)
            else own_error(
                name,
                actual,
                truths[counterpart],
                baselines[counterpart],
                tolerances,
                moved.get(counterpart, 0.0),
                excused=bool(imprecise_operators(nodes, cuts.suspect.runtime)),
                caveats=excuses,
            )
        )
        whole = whole_error(wholes[name], recorded[counterpart], excuses) if name in wholes else None
        yield Measured(name, counterpart, own, whole)


def _truths(
    cuts: Cuts, counterparts: Sequence[str], recorded: Mapping[str, Array], *, ill_conditioned: bool
) -> tuple[Mapping[str, Array], Mapping[str, Array], Mapping[str, float]]:
    """Return the truth, the baseline and the conditioning of each value of the reference."""
    baselines = cuts.runs.part(cuts.reference, recorded, counterparts)
    oracle = cuts.runs.oracle(cuts.reference, recorded, counterparts)
    truths = None if oracle is None else oracle.run()
    if oracle is None or truths is None:
        return {name: truth_of(array) for name, array in baselines.items()}, baselines, {}
    compared: Mapping[str, Array] = {
        name: conditioning.comparable(truth, baselines[name]) for name, truth in truths.items()
    }
    compared = conditioning.measured(compared, ill_conditioned=ill_conditioned)
    moved = conditioning.movement(oracle, oracle.given, compared, 0)
    return truths, baselines, moved
