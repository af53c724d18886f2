"""Pair the nodes of two graphs, most certain pairs first.

Nodes that compute the same are found by their hashes. From these pairs, and from the outputs of the graphs, the search
grows along the edges. Names are asked only where the edges do not decide.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator

import onnx_ir as ir

from ffn_export.inspection import facts
from ffn_export.inspection.wiring import Wiring, attribute_key

Key = Callable[[ir.Node], Hashable]


class NodePairs:
    """The pairs of two graphs.

    Attributes:
        left: Nodes of A that its outputs depend on, in topological order.
        right: Those of B.
        of: Node of A -> node of B.
    """

    def __init__(self, a: ir.Model, wiring_a: Wiring, b: ir.Model, wiring_b: Wiring) -> None:
        self._hashes_a, self._hashes_b = wiring_a.hashes, wiring_b.hashes
        self.left, self.right = _reached(a, wiring_a), _reached(b, wiring_b)
        self.of: dict[ir.Node, ir.Node] = {}
        self._taken: set[ir.Node] = set()
        self._outputs = list(zip(a.graph.outputs, b.graph.outputs, strict=False))
        self._by(lambda n: self._hashes_a[n.outputs[0]], lambda n: self._hashes_b[n.outputs[0]])
        self._by_unique(lambda n: _weights(n, self._hashes_a), lambda n: _weights(n, self._hashes_b))
        self._grow(_alike)
        self._by_unique(_named, _named)
        self._grow(_alike)
        self._grow(facts.operator_name)
        self._grow(lambda node: len(node.outputs), between=True)

    def same(self, a: ir.Value | None, b: ir.Value | None) -> bool:
        """Whether two values are counterparts: they are computed alike, or their nodes are a pair."""
        if a is None or b is None:
            return a is b
        if self._hashes_a.get(a, a) == self._hashes_b.get(b, b):
            return True
        node, other = a.producer(), b.producer()
        return node is not None and other is not None and self.of.get(node) is other and a.index() == b.index()

    def without_counterpart(self) -> tuple[list[ir.Node], list[ir.Node]]:
        """Return the nodes only in A and only in B."""
        return [n for n in self.left if n not in self.of], [n for n in self.right if n not in self._taken]

    def _pair(self, a: ir.Node, b: ir.Node) -> None:
        self.of[a] = b
        self._taken.add(b)

    def _by(self, key_a: Key, key_b: Key) -> None:
        """Pair nodes with equal keys, in order."""
        waiting: dict[Hashable, list[ir.Node]] = defaultdict(list)
        for node in reversed(self.right):
            waiting[key_b(node)].append(node)
        for node in self.left:
            if same := waiting.get(key_a(node)):
                self._pair(node, same.pop())

    def _by_unique(self, key_a: Key, key_b: Key) -> None:
        """Pair nodes with a key that no other node of their graph has; None is no key."""
        left, right = self.without_counterpart()
        keys_a, keys_b = {node: key_a(node) for node in left}, {node: key_b(node) for node in right}
        counts_a, counts_b = Counter(keys_a.values()), Counter(keys_b.values())
        node_of = {key: node for node, key in keys_b.items() if counts_b[key] == 1 and key is not None}
        for node, key in keys_a.items():
            if counts_a[key] == 1 and key in node_of:
                self._pair(node, node_of[key])

    def _grow(self, key: Key, *, between: bool = False) -> None:
        """Pair the neighbours of pairs that have equal keys and, if asked, read a value that is the same in both."""
        pending = list(self.of.items())
        found: Iterable[tuple[ir.Node, ir.Node]] = _producers(self._outputs)
        while True:
            for a, b in found:
                if a in self.of or b in self._taken or key(a) != key(b):
                    continue
                if between and not any(map(self.same, a.inputs, b.inputs)):
                    continue
                self._pair(a, b)
                pending.append((a, b))
            if not pending:
                return
            a, b = pending.pop()
            found = [*_producers(zip(a.inputs, b.inputs, strict=False)), *self._users(a, b, key)]

    def _users(self, a: ir.Node, b: ir.Node, key: Key) -> Iterator[tuple[ir.Node, ir.Node]]:
        """Yield users of two nodes that read the same output at the same place, if the key tells them apart."""
        for given, other in zip(a.outputs, b.outputs, strict=False):
            users = [_open_users(given, self.of, key), _open_users(other, self._taken, key)]
            for place, nodes in users[0].items():
                others = users[1].get(place, [])
                if len(nodes) == len(others) == 1:
                    yield nodes[0], others[0]


def _reached(model: ir.Model, wiring: Wiring) -> list[ir.Node]:
    return [node for node in model.graph if any(value in wiring.hashes for value in node.outputs)]


def _alike(node: ir.Node) -> Hashable:
    attributes = ((name, attribute_key(node.attributes[name])) for name in sorted(node.attributes))
    return facts.operator_name(node), node.overload, tuple(attributes)


def _named(node: ir.Node) -> Hashable:
    return (node.name, facts.operator_name(node)) if node.name else None


def _weights(node: ir.Node, hashes: dict[ir.Value, str]) -> Hashable:
    read = tuple(hashes.get(v) for v in node.inputs if v is not None and v.is_initializer())
    return (_alike(node), read) if read else None


def _producers(values: Iterable[tuple[ir.Value | None, ir.Value | None]]) -> Iterator[tuple[ir.Node, ir.Node]]:
    for value, other in values:
        node, its = (None if v is None else v.producer() for v in (value, other))
        if node is not None and its is not None:
            yield node, its


def _open_users(value: ir.Value, closed: Iterable[ir.Node], key: Key) -> dict[tuple[int, Hashable], list[ir.Node]]:
    users: dict[tuple[int, Hashable], list[ir.Node]] = defaultdict(list)
    for user, place in value.uses():
        if user not in closed:
            users[place, key(user)].append(user)
    return users
