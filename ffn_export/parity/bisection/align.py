"""Align the values of two graphs that share no names.

Two graphs from one exporter, before and after fusion, share names. A graph of another origin shares none, or uses the
same numbered names for other values. Its values are then paired in rounds:

1. Inputs and outputs are paired from the start.
2. The suspect runs, cut at all pairs, and values are paired whose numbers agree.
3. Around a pair whose numbers differ, more values are paired by the wiring (``wiring``).
4. The next round repeats steps 2 and 3. Values after a fault are now computed from right numbers, and agree. The
   rounds end when no new pair is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.parity.bisection import wiring
from ffn_export.parity.bisection.cuts import Cuts
from ffn_export.parity.bisection.fingerprints import Print, fingerprint
from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.bisection.pairs import Pairs, of_interface
from ffn_export.parity.bisection.runs import Runs, Side

_MOST_ROUNDS = 16
# Values nearer than _EQUAL are the same. Values up to _NEAR may be the same with an error, which the error of the part
# decides later.
_EQUAL = 1e-4
_NEAR = 0.02


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
    cuts = Cuts(suspect, reference, pairs, runs)
    for _ in range(_MOST_ROUNDS):
        mine = _prints(cuts)
        found = _pair_near(suspect.graph, reference.graph, pairs, mine, theirs)
        wrong = [n for n, c in pairs.in_order(suspect.graph) if n not in mine or theirs[c].distance(mine[n]) > _EQUAL]
        if not wrong and not found:
            break
        if wiring.backwards(suspect.graph, reference.graph, pairs, wrong):
            continue
        around = dict.fromkeys(n for name in wrong for n in cuts.part(name).nodes)
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


def _pair_near(
    suspect: Graph, reference: Graph, pairs: Pairs, mine: Mapping[str, Print], theirs: Mapping[str, Print]
) -> bool:
    """Pair values with the nearest numbers, and return whether any were paired.

    Ties go to values of the same operator, then to the nearest places in the two graphs.
    """
    alike = defaultdict[tuple[tuple[int, ...], bool], list[str]](list)
    for name, print_ in theirs.items():
        if name not in pairs.taken:
            alike[print_.shape, print_.floating].append(name)
    candidates = []
    for name, print_ in mine.items():
        if name in pairs.values:
            continue
        for other in alike[print_.shape, print_.floating]:
            distance = theirs[other].distance(print_)
            if distance <= _NEAR:
                made_alike = _maker(suspect, name) == _maker(reference, other)
                apart = abs(suspect.rank(name) / len(suspect) - reference.rank(other) / len(reference))
                candidates.append((distance if distance > _EQUAL else 0.0, not made_alike, apart, name, other))
    found = False
    for *_, name, other in sorted(candidates):
        found |= pairs.add(name, other)
    return found


def _maker(graph: Graph, name: str) -> tuple[str, str]:
    node = graph.values[name].producer()
    assert isinstance(node, ir.Node)
    return node.domain, node.op_type
