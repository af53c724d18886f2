"""Call graph of a model's functions, and the number of nodes after inlining every call.

If each function calls the next one twice, 60 functions are a file of 4 kB and 2^60 nodes. So the nodes are counted
without inlining.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import onnx_ir as ir

Key = tuple[str, str, str]


@dataclass(frozen=True)
class WrittenOut:
    """Size of a graph or function after inlining every call.

    Attributes:
        nodes: Number of nodes.
        depth: Depth of nested calls; 0 without calls.
    """

    nodes: int
    depth: int


def callees(model: ir.Model) -> dict[Key, Counter[Key]]:
    """Return each function of the model, with the number of its calls of each other function."""
    return {key: _calls(model, function.all_nodes()) for key, function in model.functions.items()}


def written_out(model: ir.Model) -> WrittenOut:
    """Return the size of the main graph after inlining.

    Raises:
        ValueError: If a function calls itself, directly or through others.
    """
    called = callees(model)
    try:
        order = list(TopologicalSorter({key: list(calls) for key, calls in called.items()}).static_order())
    except CycleError as error:
        raise ValueError(f"function {error.args[1][0][1]!r} calls itself") from error
    found: dict[Key, WrittenOut] = {}
    for key in order:
        found[key] = _sum(len(list(model.functions[key].all_nodes())), called[key], found)
    nodes = list(model.graph.all_nodes())
    return _sum(len(nodes), _calls(model, nodes), found)


def _calls(model: ir.Model, nodes: Iterable[ir.Node]) -> Counter[Key]:
    return Counter(key for node in nodes if (key := node.op_identifier()) in model.functions)


def _sum(own: int, calls: Mapping[Key, int], found: Mapping[Key, WrittenOut]) -> WrittenOut:
    return WrittenOut(
        own + sum(count * (found[key].nodes - 1) for key, count in calls.items()),
        max((found[key].depth + 1 for key in calls), default=0),
    )
