"""Which rules made a node is a note on it."""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.provenance import note, rules_of


def test_each_rule_is_noted_once_in_the_order_of_their_work() -> None:
    node = ir.Node("", "Add", [])
    assert rules_of(node) == ()
    note(node, ["swish", "quick-gelu"])
    note(node, [*rules_of(node), "quick-gelu", "transposed-activation"])
    assert rules_of(node) == ("swish", "quick-gelu", "transposed-activation")
