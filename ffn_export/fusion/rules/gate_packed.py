"""Gate and up of a gated feed-forward, two products of one input -> one product and the ``Split`` of its result.

One product reads the input once, and a device starts one kernel for it. Covers: products with and without biases,
which stay after the ``Split``. Not covered: a ``Gemm``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.fusion import linear
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Found, Match, Operator, Rule, standard
from ffn_export.fusion.sites import feed_forward_after
from ffn_export.fusion.views import is_standard, rank, readers

_OPSET = 13  # sizes as an input of Split


class GatePacked(Rule):
    """Gate and up as one product."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = "Split"
    ends: ClassVar[frozenset[Operator]] = standard("MatMul")
    undoes: ClassVar[str | None] = "gate-apart"

    def match(self, node: ir.Node) -> Found:
        """Recognise both products from either of them."""
        own = linear.read(node.outputs[0], node.graph)
        opset = node.graph.opset_imports.get("", 0) if node.graph is not None else 0
        if own is None or opset < _OPSET or rank(own.x) is None:
            return None
        for other in readers(own.x):
            if other is node or other.graph is not node.graph or not is_standard(other, "MatMul"):
                continue
            beside = linear.read(other.outputs[0], node.graph)
            if beside is None or beside.x is not own.x or not _are_gate_and_up(other, node):
                continue
            tensors = [constant_tensor(layer.weight) for layer in (beside, own)]
            first, second = tensors
            if first is None or second is None or first.dtype != second.dtype:
                continue
            return Match(
                (other, node),
                (other.outputs[0], node.outputs[0]),
                partial(_write, layers=(beside, own), weights=(first, second)),
            )
        return None


def _are_gate_and_up(one: ir.Node, other: ir.Node) -> bool:
    """Whether both are the first products of one gated feed-forward."""
    site = feed_forward_after(other)
    return site is not None and bool(site.gated) and one in site.nodes and other in site.nodes


def _write(op: Builder, layers: tuple[linear.Linear, ...], weights: tuple[ir.TensorProtocol, ...]) -> list[ir.Value]:
    sizes = [layer.sizes[1] for layer in layers]
    packed = op.computed(partial(_packed, weights), weights[0].dtype, (layers[0].sizes[0], sum(sizes)))
    both = op.MatMul(layers[0].x, packed)
    return list(op.Split(both, op.constant(np.asarray(sizes, np.int64)), axis=-1, _outputs=2))


def _packed(weights: tuple[ir.TensorProtocol, ...]) -> np.ndarray[Any, Any]:
    return np.concatenate([tensor.numpy() for tensor in weights], axis=1)
