"""Rules that write another function, planted into a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx_ir as ir
import pytest

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise.decomposed_norm import NormParts, RmsNorm
from ffn_export.fusion.canonicalise.gelu import Gelu
from ffn_export.fusion.rule import Found, Match, Rule
from ffn_export.fusion.targets import TARGETS

Bad = Callable[[str], bool]


class TanhForErf(Gelu):
    """Writes the wrong kind of GELU."""

    def write(self, op: Builder, x: ir.Value, approximate: str) -> ir.Value:
        return op.Gelu(x, approximate="tanh")


class WrongEpsilon(RmsNorm):
    """Writes an epsilon that is a hundred times too large."""

    def write(self, op: Builder, parts: NormParts, y: ir.Value, outputs: int) -> Sequence[ir.Value]:
        written = super().write(op, parts, y, outputs)
        for node in op.nodes:
            if node.op_type == "RMSNormalization":
                node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 100 * node.attributes.get_float("epsilon", 0.0))
        return written


class Unloadable(Gelu):
    """Writes an operator that no runtime has."""

    def write(self, op: Builder, x: ir.Value, approximate: str) -> ir.Value:
        return op.Gelu(x, approximate="neither")


class Raising(Gelu):
    """Raises."""

    def match(self, node: ir.Node) -> Found:
        raise KeyError("a fault of the rule")


def _at(right: type[Rule], faulty: type[Rule], is_bad: Bad) -> type[Rule]:
    """Return a rule that is the faulty one at some values only."""

    class Sometimes(right):  # type: ignore[misc, valid-type]
        def match(self, node: ir.Node) -> Found:
            chosen: type[Rule] = faulty if is_bad(str(node.outputs[0].name)) else right
            found: Match | Found = chosen().match(node)
            return found

    Sometimes.name = right.name
    return Sometimes


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a faulty rule into a target, for the values of these names or for all."""

    def planted(faulty: type[Rule], *values: str, target: str = "portable") -> None:
        own, right = TARGETS[target], faulty.__bases__[0]
        there = _at(right, faulty, lambda name: not values or name in values)
        changed = replace(own, canonical=tuple(there if rule is right else rule for rule in own.canonical))
        monkeypatch.setitem(TARGETS, target, changed)

    return planted
