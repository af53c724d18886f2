"""Rules that write another function, planted into a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import ClassVar

import onnx_ir as ir
import pytest

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise.gelu import Gelu
from ffn_export.fusion.canonicalise.norm_in_pieces import Pieces
from ffn_export.fusion.canonicalise.rms_norm import RmsNorm
from ffn_export.fusion.rule import Found, Match, Rule
from ffn_export.fusion.targets import TARGETS, Target

Bad = Callable[[str], bool]


class TanhForErf(Gelu):
    """Writes the wrong kind of GELU."""

    instead_of: ClassVar[type[Rule] | None] = Gelu

    def write(self, op: Builder, x: ir.Value, approximate: str) -> ir.Value:
        y: ir.Value = op.Gelu(x, approximate="tanh")
        return y


class WrongEpsilon(RmsNorm):
    """Writes an epsilon that is a hundred times too large."""

    instead_of: ClassVar[type[Rule] | None] = RmsNorm

    def write(self, op: Builder, pieces: Pieces, y: ir.Value, outputs: int) -> list[ir.Value]:
        written = super().write(op, pieces, y, outputs)
        for node in op.nodes:
            if node.op_type == "RMSNormalization":
                node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 100 * node.attributes.get_float("epsilon", 0.0))
        return written


class Unloadable(Gelu):
    """Writes an operator that no runtime has."""

    instead_of: ClassVar[type[Rule] | None] = Gelu

    def write(self, op: Builder, x: ir.Value, approximate: str) -> ir.Value:
        y: ir.Value = op.Gelu(x, approximate="neither")
        return y


class Raising(Gelu):
    """Raises."""

    instead_of: ClassVar[type[Rule] | None] = Gelu

    def match(self, node: ir.Node) -> Found:
        raise KeyError("a fault of the rule")


@dataclass(frozen=True)
class Planted(Target):
    """A target with one rule in the place of another, at some values only."""

    faulty: type[Rule] = Gelu
    at: Bad = field(default=lambda name: True)

    @property
    def canonical(self) -> tuple[type[Rule], ...]:
        original, faulty, at = self.faulty.instead_of, self.faulty, self.at
        assert original is not None
        right = original

        class Sometimes(right):  # type: ignore[misc, valid-type]
            def match(self, node: ir.Node) -> Found:
                chosen: type[Rule] = faulty if at(str(node.outputs[0].name)) else right
                found: Match | Found = chosen().match(node)
                return found

        Sometimes.__name__ = right.__name__
        return tuple(Sometimes if rule is right else rule for rule in super().canonical)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a faulty rule into a target, for the values of these names or for all."""

    def planted(faulty: type[Rule], *values: str, target: str = "portable") -> None:
        own = TARGETS[target]
        changed = Planted(
            **{each.name: getattr(own, each.name) for each in fields(own)},
            faulty=faulty,
            at=lambda name: not values or name in values,
        )
        monkeypatch.setitem(TARGETS, target, changed)

    return planted
