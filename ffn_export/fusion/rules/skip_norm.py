"""A residual sum and its norm -> one ``Skip…`` node of ``com.microsoft``.

``LayerNormalization`` becomes SkipLayerNormalization, ``RMSNormalization`` becomes
SkipSimplifiedLayerNormalization. Covers: a bias added to either addend, folded in; a sum that is read
elsewhere too, which is then the node's own fourth output. Not covered: a norm over more than the last
axis; addends of different shapes; inputs of other ranks than 2 and 3, which the kernels refuse.
"""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import onnx_ir as ir
from onnxscript.rewriter import MatchResult, RewriteRule

from ffn_export.fusion import constants
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule, refuse
from ffn_export.fusion.rules.bias_gelu import ORT
from ffn_export.fusion.shapes import are_alike, is_row_of

_FLOAT32 = ir.DataType.FLOAT.value


class SkipLayerNorm(Rule):
    """Residual sum and LayerNorm."""

    site: ClassVar[SiteKind] = "residual_norm"
    writes: ClassVar[str | None] = "com.microsoft::SkipLayerNormalization"
    targets: ClassVar[frozenset[str] | None] = ORT
    norm: ClassVar[str] = "LayerNormalization"

    def __init__(self, bias_at: tuple[int, int] | None, *, keeps_sum: bool) -> None:
        super().__init__()
        self.bias_at = bias_at
        self.keeps_sum = keeps_sum

    @classmethod
    def variants(cls) -> list[Rule]:
        """Return every place of the bias, which only ``check`` can tell from the other addends, then none."""
        places = [*product((0, 1), (0, 1)), None]
        return [cls(place, keeps_sum=keeps) for place in places for keeps in (False, True)]

    @classmethod
    def rules(cls) -> list[RewriteRule]:
        """Return the variants in the order of operands as written; all orders are among them."""
        return [RewriteRule(v.pattern, v.rewrite, v.check, name=v.name) for v in cls.variants()]

    def pattern(self, op: Any, x: Any, skip: Any, bias: Any, scale: Any) -> Any:
        """Match the norm of the sum."""
        addends = [x, skip]
        if self.bias_at is not None:
            outer, inner = self.bias_at
            biased = op.Add(*([bias, x] if inner == 0 else [x, bias]))
            addends = [biased, skip] if outer == 0 else [skip, biased]
        total = op.Add(*addends)
        normalised = getattr(op, self.norm)(total, scale, _allow_other_inputs=True, _outputs=["normalised"])
        return (normalised, total) if self.keeps_sum else normalised

    def check(self, op: Any, x: Any, skip: Any, scale: Any, normalised: Any, bias: Any = None, **_: Any) -> MatchResult:
        """Refuse what the kernels do not compute."""
        if constants.is_constant(x) or constants.is_constant(skip):
            return MatchResult().fail()  # the sum is a bias, and no residual
        if self.bias_at is not None and not constants.is_constant(bias):
            return MatchResult().fail()  # a sum of three: the outer one is matched without a bias
        reason = self._refusal(x, skip, scale, normalised.producer(), bias)
        return MatchResult() if reason is None else refuse(reason, normalised)

    def _refusal(
        self, x: ir.Value, skip: ir.Value, scale: ir.Value, node: ir.Node, bias: ir.Value | None
    ) -> str | None:
        rank = 0 if x.shape is None else len(x.shape)
        shift = node.inputs[2] if len(node.inputs) > 2 else None
        conditions = {
            "the statistics are not in float32": node.attributes.get_int("stash_type", 1) == _FLOAT32,
            "the mean or the inverse deviation of the norm is read": not any(map(_is_read, node.outputs[1:])),
            f"the addends have shapes {x.shape} and {skip.shape}": are_alike(x, skip),
            f"{self.writes} takes rank 2 or 3, the sum has rank {rank}": rank in (2, 3),
            "the norm runs over more than the last axis": node.attributes.get_int("axis", -1) in (-1, rank - 1),
            "the norm's scale is not one number for each feature": is_row_of(scale, x),
            "the norm's bias is not one number for each feature": shift is None or is_row_of(shift, x),
            "the bias is not one number for each feature": bias is None or is_row_of(bias, x),
        }
        return next((reason for reason, holds in conditions.items() if not holds), None)

    def rewrite(self, op: Any, x: Any, skip: Any, scale: Any, normalised: Any, bias: Any = None, **_: Any) -> Any:
        """Write the fused operator, with the epsilon: the two operators default to different ones."""
        node = normalised.producer()
        assert self.writes is not None
        domain, _separator, name = self.writes.rpartition("::")
        outputs = getattr(op, name)(
            *self.inputs(x, skip, scale, node, bias),
            epsilon=node.attributes.get_float("epsilon", 1e-5),
            _outputs=4 if self.keeps_sum else 1,
            _domain=domain,
        )
        if not self.keeps_sum:
            return outputs
        for statistic in outputs[1:3]:
            statistic.name = ""  # for training; no kernel computes them
        return outputs[0], outputs[3]

    def inputs(self, x: Any, skip: Any, scale: Any, node: Any, bias: Any) -> list[Any]:
        """Return the inputs in the operator's order."""
        return [x, skip, scale, node.inputs[2] if len(node.inputs) > 2 else None, bias]


class SkipRmsNorm(SkipLayerNorm):
    """Residual sum and RMSNorm."""

    writes: ClassVar[str | None] = "com.microsoft::SkipSimplifiedLayerNormalization"
    norm: ClassVar[str] = "RMSNormalization"

    def inputs(self, x: Any, skip: Any, scale: Any, node: Any, bias: Any) -> list[Any]:
        """Return the inputs in the operator's order; it has no shift."""
        return [x, skip, scale, bias]


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
