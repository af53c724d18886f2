"""Compare how two graphs are connected, whatever the names and the order of their nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.inspection import facts


class Wiring:
    """Hashes of the values of a model.

    The hash of a value covers its node and all values that the node reads, also in its subgraphs. Graph inputs count by
    name, initializers by token, and a function call by the body of the function.

    Attributes:
        hashes: Value -> hash, for each value of the graph that its outputs depend on.
        fingerprint: Hash of how the outputs are computed.
    """

    def __init__(self, model: ir.Model, token_of: Mapping[ir.Value, str]) -> None:
        """Hash a model. Initializers have a token, which counterparts in two models share."""
        self._functions = model.functions
        self._bodies: dict[ir.OperatorIdentifier, str] = {}
        self.hashes: dict[ir.Value, str] = {value: f"weight {token}" for value, token in token_of.items()}
        self.hashes |= {value: f"input {value.name}" for value in model.graph.inputs}
        self.fingerprint = self._of(model.graph.outputs, self.hashes)

    def _of(self, outputs: Iterable[ir.Value], known: dict[ir.Value, str]) -> str:
        """Return the hash of values, given the hashes of others."""
        return _hash(*(self._value(output, known) for output in outputs))

    def _value(self, output: ir.Value, known: dict[ir.Value, str]) -> str:
        """Return the hash of a value, with an explicit stack instead of recursion, since graphs are deep."""
        pending = [output]
        while pending:
            value = pending[-1]
            node = value.producer()
            if value in known or node is None:
                known.setdefault(value, f"outside {value.name}")
                pending.pop()
                continue
            values = (*node.inputs, *captured(node))
            unknown = [v for v in values if v is not None and v not in known]
            if unknown:
                pending.extend(unknown)
                continue
            read = ["" if v is None else known[v] for v in values]
            attributes = (attribute_key(node.attributes[name]) for name in sorted(node.attributes))
            own = _hash(facts.operator_name(node), node.overload, self.body(node), *attributes, *read)
            known.update({given: _hash(own, str(index)) for index, given in enumerate(node.outputs)})
        return known[output]

    def body(self, node: ir.Node) -> str:
        """Return the hashes of the functions that a node calls, itself or in its subgraphs."""
        nodes = [node, *(each for graph in _graphs(node) for each in graph)]
        called = [key for each in nodes if (key := each.op_identifier()) in self._functions]
        return " ".join(map(self._function, called))

    def _function(self, key: ir.OperatorIdentifier) -> str:
        if key not in self._bodies:
            self._bodies[key] = ""  # ends recursion: a function that calls itself is invalid
            function = self._functions[key]
            inputs = {value: f"input {place}" for place, value in enumerate(function.inputs)}
            body = self._of(function.outputs, inputs)
            defaults = (function.attributes[name] for name in sorted(function.attributes))
            stated = [attribute_key(default) for default in defaults if default.value is not None]
            self._bodies[key] = _hash(body, repr(sorted(function.opset_imports.items())), *stated)
        return self._bodies[key]


def _graphs(node: ir.Node) -> list[ir.Graph]:
    """Return the subgraphs of a node, at any depth."""
    return [graph for body in graphs_of(node) for graph in (body, *body.subgraphs())]


def captured(node: ir.Node) -> list[ir.Value]:
    """Return the outer values that the subgraphs of a node read, in the order of use."""
    graphs = _graphs(node)
    own = {value for graph in graphs for value in (*graph.inputs, *graph.initializers.values())}
    own |= {value for graph in graphs for each in graph for value in each.outputs}
    read = (v for graph in graphs for v in (*(v for each in graph for v in each.inputs), *graph.outputs))
    return [value for value in dict.fromkeys(read) if value is not None and value not in own]


def attribute_key(attribute: ir.Attr) -> str:
    """Return a text that equal attributes share."""
    # A subgraph is serialised with its names, so these count.
    serialised: bytes = ir.to_proto(attribute).SerializeToString(deterministic=True)
    return serialised.hex()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
