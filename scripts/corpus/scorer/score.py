"""How many of the sites of one graph are complete in another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from corpus.scorer.feed_forwards import FeedForward, find_feed_forwards, whole_feed_forwards
from corpus.scorer.norms import Norm, find_norms, summed
from corpus.scorer.reading import Graph

KINDS = ("feed_forward", "norm", "residual_norm")


@dataclass(frozen=True)
class Expected:
    """The sites of a graph before fusion.

    Attributes:
        feed_forwards: One each.
        norms: One each.
        pairs: For each sum, the norms that read it.
    """

    feed_forwards: tuple[FeedForward, ...]
    norms: tuple[Norm, ...]
    pairs: tuple[tuple[Norm, ...], ...]


@dataclass(frozen=True)
class Score:
    """What became of the sites.

    Attributes:
        found: Kind -> how many there are.
        complete: Kind -> how many are complete.
        left: Kind -> the operators of those that are not -> how many.
    """

    found: Mapping[str, int]
    complete: Mapping[str, int]
    left: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Say whether every site is."""
        return dict(self.found) == dict(self.complete)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"found": dict(self.found), "complete": dict(self.complete), "left": dict(self.left)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Score:
        """Read what :meth:`to_dict` wrote."""
        return cls(data["found"], data["complete"], data["left"])


def expected_sites(path: Path) -> Expected:
    """Read the sites of a graph before fusion."""
    graph = Graph(path)
    norms = tuple(find_norms(graph))
    by_sum: dict[ir.Node, list[Norm]] = {}
    for norm in norms:
        add = summed(graph, norm)
        if add is not None:
            by_sum.setdefault(add, []).append(norm)
    return Expected(tuple(find_feed_forwards(graph)), norms, tuple(map(tuple, by_sum.values())))


def score(expected: Expected, path: Path) -> Score:
    """Say how many of the expected sites are complete in the graph of a file."""
    graph = Graph(path)
    norms = list(find_norms(graph))
    counted = {
        "feed_forward": _feed_forwards(expected, graph),
        "norm": _norms(expected, norms),
        "residual_norm": _pairs(expected, norms),
    }
    sites = {"feed_forward": expected.feed_forwards, "norm": expected.norms, "residual_norm": expected.pairs}
    return Score(
        {kind: len(sites[kind]) for kind in KINDS},
        {kind: len(sites[kind]) - sum(left.values()) for kind, left in counted.items()},
        {kind: dict(sorted(left.items())) for kind, left in counted.items() if left},
    )


def _feed_forwards(expected: Expected, graph: Graph) -> Counter[str]:
    now: dict[str, list[FeedForward]] = {}
    for site in find_feed_forwards(graph):
        now.setdefault(site.key, []).append(site)
    whole = Counter(whole_feed_forwards(graph))
    left: Counter[str] = Counter()
    for wanted in expected.feed_forwards:
        if whole[wanted.key]:
            whole[wanted.key] -= 1
            continue
        same = sorted(now.get(wanted.key, []), key=lambda site: len(site.between))
        if not same:
            left[f"not found; was {' '.join(wanted.between)}"] += 1
            continue
        now[wanted.key].remove(same[0])
        if len(same[0].between) > (2 if wanted.gated else 1):
            left[" ".join(same[0].between)] += 1
    return left


def _norms(expected: Expected, norms: Iterable[Norm]) -> Counter[str]:
    complete = Counter(norm.key for norm in norms if norm.is_one_node)
    left: Counter[str] = Counter()
    for wanted in expected.norms:
        if complete[wanted.key]:
            complete[wanted.key] -= 1
        else:
            left[_written_now(wanted, norms)] += 1
    return left


def _pairs(expected: Expected, norms: Iterable[Norm]) -> Counter[str]:
    complete = Counter(norm.key for norm in norms if norm.takes_sum and norm.is_one_node)
    left: Counter[str] = Counter()
    for readers in expected.pairs:
        done = next((norm.key for norm in readers if complete[norm.key]), None)
        if done is not None:
            complete[done] -= 1
        else:
            left[f"Add, {' | '.join(_written_now(norm, norms) for norm in readers)}"] += 1
    return left


def _written_now(wanted: Norm, norms: Iterable[Norm]) -> str:
    """Return the operators that a norm consists of now."""
    return " ".join(next((norm.operators for norm in norms if norm.key == wanted.key), wanted.operators))
