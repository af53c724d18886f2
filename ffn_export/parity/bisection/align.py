"""Align the values of two graphs that share no names.

Two graphs from one exporter, before and after fusion, share names. A graph of another origin shares none, or uses the
same numbered names for other values. Its values are then paired in rounds:

1. Inputs and outputs are paired from the start.
2. The suspect runs, cut at all pairs, and values are paired whose numbers agree (``align_by_value``).
3. Around a pair whose numbers differ, more values are paired by the wiring (``wiring``).
4. The next round repeats steps 2 and 3. Values after a fault are now computed from right numbers, and agree. The
   rounds end when no new pair is found.
"""

from __future__ import annotations

from ffn_export.parity.bisection import wiring
from ffn_export.parity.bisection.align_by_value import EQUAL, pair_near
from ffn_export.parity.bisection.cuts import Cuts
from ffn_export.parity.bisection.fingerprints import Print, fingerprint
from ffn_export.parity.bisection.pairs import Pairs, of_interface
from ffn_export.parity.bisection.runs import Runs, Side

_MOST_ROUNDS = 16


def by_numbers(suspect: Side, reference: Side, runs: Runs) -> Pairs:
    """Pair the values of graphs that share no names.

    Raises:
        RefusedError: If the reference does not run.
    """
    pairs = of_interface(suspect.graph, reference.graph)
    pairs.by = "numbers"
    theirs = {
        name: fingerprint(array)
        for chunk in runs.chunks(reference.graph, reference.graph.values)
        for name, array in runs.whole(reference, chunk).items()
    }
    for _ in range(_MOST_ROUNDS):
        mine = _prints(Cuts(suspect, reference, pairs, runs))
        found = pair_near(suspect.graph, reference.graph, pairs, mine, theirs)
        wrong = [n for n, c in pairs.in_order(suspect.graph) if n not in mine or theirs[c].distance(mine[n]) > EQUAL]
        if not wrong and not found:
            break
        if wiring.backwards(suspect.graph, reference.graph, pairs, wrong):
            continue
        around = dict.fromkeys(n for name in wrong for n in suspect.graph.between(name, pairs.values).nodes)
        if not wiring.forwards(suspect.graph, reference.graph, pairs, around) and not found:
            break
    return pairs


def _prints(cuts: Cuts) -> dict[str, Print]:
    """Return the fingerprint of each value that the suspect computes from the pairs before it."""
    found = {}
    for chunk in cuts.chunks(cuts.suspect.graph.values):
        parts = cuts.runs.parts(cuts.suspect, cuts.given(cuts.recorded(chunk)), chunk)
        found.update({name: fingerprint(array) for name, array in parts.items() if not isinstance(array, str)})
    return found
