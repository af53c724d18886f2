"""Changed nodes of two models in words; nodes that changed alike are one entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from ffn_export.inspection.difference import Change, NodeChange, NodeStatus

MOST_ENTRIES = 20
_MOST_NAMES = 3


@dataclass(frozen=True)
class Entry:
    """Nodes that changed alike.

    Attributes:
        status: Their status.
        operator: Their operator.
        names: Their names; the first few of many.
        words: What changed, such as ``approximate none → tanh``; the first node's inputs stand for all.
    """

    status: NodeStatus
    operator: str
    names: str
    words: str


def entries(nodes: Sequence[NodeChange]) -> list[Entry]:
    """Return the entries, those first that changed in more than the names of their inputs."""
    alike: dict[Hashable, list[NodeChange]] = defaultdict(list)
    for node in nodes:
        alike[node.status, node.operator, tuple(map(_kind, node.changes))].append(node)
    groups = sorted(alike.values(), key=lambda group: group[0].status == "changed" and _only_inputs(group[0]))
    return [Entry(g[0].status, g[0].operator, _names(g), ", ".join(map(_words, g[0].changes))) for g in groups]


def counts(nodes: Sequence[NodeChange]) -> Iterator[str]:
    """Yield the number of nodes of each status."""
    for status in ("changed", "only in A", "only in B"):
        if number := sum(node.status == status for node in nodes):
            yield f"{number} {status}"


def _kind(change: Change) -> Hashable:
    return change.what if _is_input(change) else change


def _is_input(change: Change) -> bool:
    return change.what.startswith(("input ", "value "))


def _only_inputs(node: NodeChange) -> bool:
    return all(map(_is_input, node.changes))


def _names(group: Sequence[NodeChange]) -> str:
    names = [_name(node) for node in group[:_MOST_NAMES]]
    more = len(group) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _name(node: NodeChange) -> str:
    a, b = node.a or "", node.b or ""
    return f"{a} → {b}" if node.a is not None and node.b is not None and a != b else a or b


def _words(change: Change) -> str:
    return f"{change.what} {change.a} → {change.b}" if change.a or change.b else f"{change.what} differs"
