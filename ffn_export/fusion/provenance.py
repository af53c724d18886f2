"""Which rules wrote a node: a note on it, which a model keeps in its file."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

RULE_KEY = "pkg.ffn_export.rule"
_BETWEEN = "+"


def rules_of(node: ir.Node) -> tuple[str, ...]:
    """Return the names of the rules that made a node, the last one last; none of a node that came with the model."""
    return tuple(filter(None, node.metadata_props.get(RULE_KEY, "").split(_BETWEEN)))


def note(node: ir.Node, rules: Iterable[str]) -> None:
    """Note which rules made a node, each once."""
    node.metadata_props[RULE_KEY] = joined(rules)


def joined(rules: Iterable[str]) -> str:
    """Return the names as one, each once."""
    return _BETWEEN.join(dict.fromkeys(rules))
