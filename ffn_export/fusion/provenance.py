"""Record in a node's metadata, which is saved with the model, the rules that wrote it."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

RULE_KEY = "pkg.ffn_export.rule"
_BETWEEN = "+"


def rules_of(node: ir.Node) -> tuple[str, ...]:
    """Return the names of the rules that wrote a node, in order; an empty tuple for an original node."""
    return tuple(filter(None, node.metadata_props.get(RULE_KEY, "").split(_BETWEEN)))


def note(node: ir.Node, rules: Iterable[str]) -> None:
    """Record the rules that wrote a node, each once."""
    node.metadata_props[RULE_KEY] = joined(rules)


def notes(model: ir.Model) -> dict[str, tuple[str, ...]]:
    """Return the names of values -> the rules that wrote their nodes, without original nodes."""
    return {str(node.outputs[0].name): rules for node in model.graph.all_nodes() if (rules := rules_of(node))}


def joined(rules: Iterable[str]) -> str:
    """Return the names joined into one, each once."""
    return _BETWEEN.join(dict.fromkeys(rules))
