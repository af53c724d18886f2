"""Pair values by their numbers, for graphs that share no names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.parity.bisection.fingerprints import Print
from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.bisection.pairs import Pairs

# Values nearer than EQUAL are the same. Values up to NEAR may be the same with an error, which the error of the part
# decides later.
EQUAL = 1e-4
NEAR = 0.02


def pair_near(
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
            if distance <= NEAR:
                made_alike = _maker(suspect, name) == _maker(reference, other)
                apart = abs(suspect.rank(name) / len(suspect) - reference.rank(other) / len(reference))
                candidates.append((distance if distance > EQUAL else 0.0, not made_alike, apart, name, other))
    found = False
    for *_, name, other in sorted(candidates):
        found |= pairs.add(name, other)
    return found


def _maker(graph: Graph, name: str) -> tuple[str, str]:
    node = graph.values[name].producer()
    assert isinstance(node, ir.Node)
    return node.domain, node.op_type
