"""Whether two graphs are wired alike, whatever their nodes and values are called and in which order they stand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.inspection import facts


def fingerprint(model: ir.Model, token_of: Mapping[ir.Value, str]) -> str:
    """Return a hash of how the outputs are computed.

    The hash of a value is that of its node and of the values that the node reads, down to the graph's
    inputs, which count by name, and to the initialisers.

    Args:
        model: The graph.
        token_of: Initialiser -> what stands for it; counterparts in two models share a token.
    """
    known: dict[ir.Value, str] = {value: f"weight {token}" for value, token in token_of.items()}
    known |= {value: f"input {value.name}" for value in model.graph.inputs}
    return _hash(*(_value(output, known) for output in model.graph.outputs))


def _value(output: ir.Value, known: dict[ir.Value, str]) -> str:
    """Return the hash of a value; by hand instead of by recursion, since graphs are deep."""
    pending = [output]
    while pending:
        value = pending[-1]
        node = value.producer()
        if value in known or node is None:
            known.setdefault(value, f"outside {value.name}")
            pending.pop()
            continue
        unknown = [v for v in node.inputs if v is not None and v not in known]
        if unknown:
            pending.extend(unknown)
            continue
        read = ["" if v is None else known[v] for v in node.inputs]
        own = _hash(facts.operator_name(node), node.overload, *map(_attribute, _sorted(node)), *read)
        known.update({given: _hash(own, str(index)) for index, given in enumerate(node.outputs)})
    return known[output]


def _sorted(node: ir.Node) -> list[ir.Attr]:
    return [node.attributes[name] for name in sorted(node.attributes)]


def _attribute(attribute: ir.Attr) -> str:
    # Subgraphs count with the names that they use.
    serialised: bytes = ir.to_proto(attribute).SerializeToString(deterministic=True)
    return serialised.hex()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
