"""A packed product of a gated feed-forward and the ``Split`` of its result -> two products, gate and up.

On CPU the ``Split`` copies the result of the product; two products write each half where it is read. Covers: with and
without a bias; halves of any size. Not covered: halves taken by ``Slice``; a ``Gemm``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.fusion import constants, linear
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Found, Match, Operator, Rule, standard
from ffn_export.fusion.sites import leads_to_a_product
from ffn_export.fusion.views import input_at, ints_of, is_standard, rank, readers

_HALVES = 2


class GateApart(Rule):
    """Gate and up as two products."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = "MatMul"
    ends: ClassVar[frozenset[Operator]] = standard("Split")
    undoes: ClassVar[str | None] = "gate-packed"

    def match(self, node: ir.Node) -> Found:
        """Recognise the packed product before the halves."""
        packed = input_at(node, 0)
        layer = None if packed is None else linear.read(packed, node.graph)
        if packed is None or layer is None or not is_standard(layer.product, "MatMul") or layer.moved:
            return None
        tensor = constant_tensor(layer.weight)
        sizes = _sizes(node, layer.sizes[1])
        private = len(readers(packed)) == 1 and not packed.is_graph_output()
        known = layer.bias is None or constants.evaluate(layer.bias) is not None
        # If the rank is not known, the bias may have more axes than the product, which would be lost.
        if rank(packed) is None or tensor is None or sizes is None:
            return None
        if not (private and known) or not leads_to_a_product(node):
            return None
        starts = np.cumsum([0, *sizes])
        parts = [slice(int(starts[half]), int(starts[half + 1])) for half in range(_HALVES)]
        return Match(
            (node, *layer.nodes),
            tuple(node.outputs),
            lambda op: [_half(op, layer, tensor, part) for part in parts],
        )


def _sizes(node: ir.Node, width: int) -> tuple[int, ...] | None:
    """Return the sizes of the two halves of the last axis, or None if the node splits in another way."""
    axis = node.attributes.get_int("axis", 0)
    if len(node.outputs) != _HALVES or axis not in (-1, (rank(node.inputs[0]) or 0) - 1):
        return None
    given, before_13 = input_at(node, 1), node.attributes.get("split")
    sizes: tuple[int, ...] | None = (width // _HALVES,) * _HALVES
    if before_13 is not None:
        sizes = ints_of(node, "split")
    elif given is not None:
        sizes = constants.integers(given)
    return sizes if sizes is not None and len(sizes) == _HALVES and sum(sizes) == width else None


def _half(op: Builder, layer: linear.Linear, tensor: ir.TensorProtocol, part: slice) -> ir.Value:
    d_in, width = layer.sizes[0], part.stop - part.start
    y: ir.Value = op.MatMul(layer.x, op.computed(partial(_columns, tensor, part), tensor.dtype, (d_in, width)))
    if layer.bias is not None:
        bias = constants.evaluate(layer.bias)
        assert bias is not None
        row = np.broadcast_to(bias.reshape(-1), (layer.sizes[1],))[part]
        y = op.Add(y, op.constant(row, tensor.dtype))
    return y


def _columns(tensor: ir.TensorProtocol, part: slice) -> np.ndarray[Any, Any]:
    return tensor.numpy()[:, part]
