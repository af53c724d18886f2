"""Pair values by wiring, around values whose numbers differ.

Backwards: if two paired values come from the same operator, the inputs at the same position are a pair although their
numbers differ. Forwards: two nodes of the same operator that read paired values compute a pair. Both stop where the
graphs differ, which is the place to report.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.bisection.pairs import Pairs

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Equal"})


def backwards(suspect: Graph, reference: Graph, pairs: Pairs, wrong: Iterable[str]) -> bool:
    """Pair the inputs of wrong values, as far as the operators agree, and return whether any were paired."""
    found = False
    pending = [name for name in wrong if name in pairs.values]
    while pending:
        name = pending.pop()
        mine = suspect.values[name].producer()
        theirs = reference.values[pairs.values[name]].producer()
        if mine is None or theirs is None or not _same_operator(mine, theirs):
            continue
        for value, counterpart in _operands(mine, theirs):
            if _can_be_one(value, counterpart, suspect, reference) and pairs.add(
                str(value.name), str(counterpart.name)
            ):
                found = True
                pending.append(str(value.name))
    return found


def forwards(suspect: Graph, reference: Graph, pairs: Pairs, nodes: Iterable[ir.Node]) -> bool:
    """Pair the outputs of the first node that reads only paired values, and return whether any were paired."""
    for node in nodes:
        read = suspect.reads(node)
        outputs = [value for value in node.outputs if value.name in suspect.values]
        if not outputs or not read or any(v.name in pairs.values for v in outputs):
            continue
        counterparts = [pairs.counterpart(str(value.name)) for value in read]
        if None in counterparts:
            continue
        for other in _readers(reference, counterparts[0]):
            same = [str(v.name) for v in reference.reads(other)] == counterparts
            if same and _same_operator(node, other) and _pair_outputs(node, other, suspect, reference, pairs):
                return True
    return False


def _pair_outputs(node: ir.Node, other: ir.Node, suspect: Graph, reference: Graph, pairs: Pairs) -> bool:
    found = False
    for value, counterpart in zip(node.outputs, other.outputs, strict=False):
        if value.name in suspect.values and counterpart.name in reference.values:
            found |= pairs.add(str(value.name), str(counterpart.name))
    return found


def _readers(graph: Graph, name: str | None) -> list[ir.Node]:
    value = graph.values.get(str(name)) or next((v for v in graph.inputs if v.name == name), None)
    return [] if value is None else list(dict.fromkeys(user for user, _ in value.uses()))


def _same_operator(mine: ir.Node, theirs: ir.Node) -> bool:
    return (mine.domain, mine.op_type) == (theirs.domain, theirs.op_type)


def _operands(mine: ir.Node, theirs: ir.Node) -> list[tuple[ir.Value, ir.Value]]:
    """Return the inputs of two nodes by position, or swapped if that fits a commutative operator better."""
    first, second = list(mine.inputs), list(theirs.inputs)
    if mine.op_type in COMMUTATIVE and len(first) == len(second) == 2:
        turned = second[::-1]
        if _agreement(first, turned) > _agreement(first, second):
            second = turned
    return [(a, b) for a, b in zip(first, second, strict=False) if a is not None and b is not None]


def _agreement(mine: list[ir.Value | None], theirs: list[ir.Value | None]) -> int:
    return sum(_maker(a) == _maker(b) for a, b in zip(mine, theirs, strict=True))


def _maker(value: ir.Value | None) -> str:
    if value is None:
        return ""
    node = value.producer()
    if node is None:
        return "initializer" if value.is_initializer() else f"input {value.name}"
    return f"{node.domain}::{node.op_type}"


def _can_be_one(value: ir.Value, counterpart: ir.Value, suspect: Graph, reference: Graph) -> bool:
    if value.name not in suspect.values or counterpart.name not in reference.values:
        return False
    if value.dtype is not None and counterpart.dtype is not None and value.dtype != counterpart.dtype:
        return False
    return value.shape is None or counterpart.shape is None or len(value.shape) == len(counterpart.shape)
