"""``Cast to float32 -> norm -> Cast back`` -> the norm in half precision, which computes in float32 itself.

Covers: float16 and bfloat16; both norms; a scale and bias that half precision holds exactly (they were
half before they were cast). Not covered: a scale or bias of higher precision; a norm whose float32 result
is read too; an RMSNorm in bfloat16 with no neighbour that computes in bfloat16, because ONNX Runtime has no
CPU kernel for it, and has one for the original float32 norm.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise.norm_affine import NORMS
from ffn_export.fusion.rule import Found, Match, Refused, Rule, standard
from ffn_export.fusion.views import input_at, int_of, is_read, producer

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_FLOAT32 = ir.DataType.FLOAT.value
_COMPUTING = frozenset({"MatMul", "Gemm", "Add", "Sub", "Mul", "Div"})


class HalfNorm(Rule):
    """A norm between casts."""

    site = "norm"
    writes = None
    ends = standard("Cast")

    def match(self, node: ir.Node) -> Found:
        """Recognise the casts around the norm."""
        norm = producer(input_at(node, 0), *NORMS, within=node.graph)
        there = producer(input_at(norm, 0), "Cast")
        if norm is None or there is None or any(map(is_read, norm.outputs[1:])):
            return None
        x = input_at(there, 0)
        half = node.outputs[0].dtype
        if x is None or half is None or half not in _HALF or x.dtype != half or norm.outputs[0].dtype is None:
            return None
        if norm.outputs[0].dtype != ir.DataType.FLOAT or int_of(norm, "stash_type", 1) != _FLOAT32:
            return None
        if half == ir.DataType.BFLOAT16 and norm.op_type == "RMSNormalization" and not _computes(x, node.outputs[0]):
            return Refused("nothing else here computes in bfloat16, which not every runtime can", (norm, node))
        for row in norm.inputs[1:]:
            if row is not None and not _fits(row, half):
                return Refused(f"{row.name!r} is more precise than {half.name.lower()}", (norm, node))
        return Match((norm, node), (node.outputs[0],), lambda op: [_write(op, norm, x, half)])


def _computes(x: ir.Value, y: ir.Value) -> bool:
    """Whether an operator beside the norm computes in half precision, so that a runtime for the graph must."""
    source = producer(x)
    return any(node.op_type in _COMPUTING for node in (*([] if source is None else [source]), *y.consumers()))


def _write(op: Builder, norm: ir.Node, x: ir.Value, half: ir.DataType) -> ir.Value:
    given = [None if row is None else _halved(op, row, half) for row in norm.inputs[1:]]
    return op.like(norm, x, *given)[0]


def _fits(row: ir.Value, half: ir.DataType) -> bool:
    array = constants.evaluate(row)
    if array is None:
        return False
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(half.numpy()).astype(array.dtype), array))


def _halved(op: Builder, row: ir.Value, half: ir.DataType) -> ir.Value:
    before = input_at(producer(row, "Cast"), 0)
    if before is not None and before.dtype == half and constants.is_constant(before):
        return before
    array = constants.evaluate(row)
    assert array is not None
    return op.constant(array.astype(half.numpy()), half)
