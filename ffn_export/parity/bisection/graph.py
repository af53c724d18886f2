"""The graph of a bisection: values by name in topological order, and the regions between values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.tapped_graphs import computed
from ffn_export.fusion.forms.choice import undo
from ffn_export.fusion.functions import inline, portable
from ffn_export.fusion.pipeline import sorted_copy

_NUMBERS = frozenset(
    {
        *(dtype for dtype in ir.DataType if dtype.is_integer() and dtype.bitwidth >= 8),
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
        ir.DataType.BOOL,
    }
)


@dataclass(frozen=True)
class Region:
    """The nodes that compute a value from given ones.

    Attributes:
        nodes: Nodes in topological order; the last one computes the value.
        given: Values that the nodes read: inputs of the graph, or values that it is cut at.
    """

    nodes: tuple[ir.Node, ...]
    given: tuple[ir.Value, ...]


class Graph:
    """A model with functions inlined and nodes in topological order.

    Attributes:
        model: The model.
        inputs: Inputs without a default.
        values: Name -> value, for every tensor that the nodes of the main graph compute, in topological order.
        outputs: Outputs of the graph, in order.
    """

    def __init__(self, model: ir.Model) -> None:
        copied = sorted_copy(model) or model.clone()
        portable.remove(copied)  # the runtime has the vendor operators
        self.model = inline.written_out(copied)
        undo(self.model)  # so that the hidden layers of both sides have the same width
        graph = self.model.graph
        self.inputs = [value for value in graph.inputs if not value.is_initializer()]
        self.outputs = list(graph.outputs)
        self.values = {str(value.name): value for value in computed(graph) if _is_tensor(value)}
        self._order = {node: place for place, node in enumerate(graph)}
        self._rank = {name: place for place, name in enumerate(self.values)}
        self._own = {*graph.inputs, *computed(graph)}

    def __len__(self) -> int:
        return len(self._order)

    def rank(self, name: str) -> int:
        """Return the place of a value in topological order."""
        return self._rank[name]

    def reads(self, node: ir.Node) -> tuple[ir.Value, ...]:
        """Return the values of the main graph that a node and its bodies read, without initializers."""
        inner = (v for body in graphs_of(node) for v in _read_inside(body))
        read = (v for v in (*node.inputs, *inner) if v is not None and v in self._own and not v.is_initializer())
        return tuple(dict.fromkeys(read))

    def between(self, name: str, given: Collection[str]) -> Region:
        """Return the region that computes a value in a graph cut at other values.

        Args:
            name: Name of the value.
            given: Names of the values that the graph is cut at. ``name`` may be among them.
        """
        nodes: set[ir.Node] = set()
        borders: dict[ir.Value, None] = {}
        pending = [self.values[name].producer()]
        while pending:
            node = pending.pop()
            if node is None or node in nodes:
                continue
            nodes.add(node)
            for value in self.reads(node):
                if value.producer() is None or value.name in given:
                    borders[value] = None
                else:
                    pending.append(value.producer())
        return Region(tuple(sorted(nodes, key=self._order.__getitem__)), tuple(borders))


def _is_tensor(value: ir.Value) -> bool:
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        return False
    return value.dtype is None or value.dtype in _NUMBERS


def _read_inside(body: ir.Graph) -> list[ir.Value]:
    inner = [v for node in body.all_nodes() for v in node.inputs if v is not None]
    return [*inner, *body.outputs]
