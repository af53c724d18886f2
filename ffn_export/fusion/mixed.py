"""Find feed-forwards that mix tokens or features of the hidden layer. They are reported and not fused.

Between the two products of a feed-forward, each token and each feature is computed alone. Some models compute across
them: a depthwise convolution over the tokens (SegFormer), a response that is normalised over them (ConvNeXt V2), a norm
of the hidden layer. No operator of a target includes one of these nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.activations import activation_name
from ffn_export.fusion.engine import sorted_nodes
from ffn_export.fusion.region import Region
from ffn_export.fusion.sites import Unfused, data_of, listed, weight_sizes
from ffn_export.fusion.views import is_standard

_MIXES = (
    *("AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"),
    *("GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization", "MaxPool", "Pad"),
    *("RMSNormalization", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare"),
)
# Operators that are no activation.
_PLAIN = ("Add", "Cast", "Div", "Mul", "Sub", *_MIXES)


@dataclass
class _MixedRegion(Region):
    """A region that may contain mixing nodes."""

    mixing: dict[ir.Node, None] = field(default_factory=dict)

    def computes(self, node: ir.Node) -> bool:
        if is_standard(node, *_MIXES):
            self.mixing[node] = None
            return True
        return super().computes(node)


def find(model: ir.Model) -> Iterator[Unfused]:
    """Yield the mixed feed-forwards, in graph order of their last nodes."""
    for graph in (model.graph, *model.graph.subgraphs(), *model.functions.values()):
        for node in graph:
            found = _mixed(node)
            if found is not None:
                yield found


def _mixed(product: ir.Node) -> Unfused | None:
    """Recognise a mixed feed-forward by its second product."""
    second, region = weight_sizes(product), _MixedRegion(data_of, constants.is_fixed)
    if second is None or not region.grow(product.inputs[0], product.graph) or region.source is None:
        return None
    first = weight_sizes(next(iter(region.firsts)))
    pieces = [node for node in region.pieces if not is_standard(node, *_PLAIN)]
    is_wider = first is not None and first[0] == second[1] < second[0]
    if not region.mixing or not is_wider or not (pieces or region.is_gated):
        return None
    mixing = sorted_nodes(region.mixing)
    verb = "computes" if len(mixing) == 1 else "compute"
    reason = f"{listed(mixing)} {verb} across tokens or features between its two products"
    nodes = (*region.firsts, *reversed(region.computing), product)
    return Unfused(nodes, activation_name([], pieces), region.is_gated, reason)
