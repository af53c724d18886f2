"""The norm and the residual around a feed-forward or a linear layer, which one node computes with it.

    x -> [norm] -> layer -> y          y -> [Add residual] -> [norm]

At most one norm: the one before the layer if only the layer reads it, otherwise the one behind. Not covered: a sum or a
product that anything else reads; a residual whose shape is not proven to be that of the result; a norm over other axes
than the last, or with a computed scale.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.functions.contract import Attribute
from ffn_export.fusion.shapes import are_alike, is_along_last, is_row_of
from ffn_export.fusion.views import float_of, input_at, inputs_of, int_of, is_read, is_standard, only_reader

_NORMS = {"LayerNormalization": "layer", "RMSNormalization": "rms"}
_FLOAT = ir.DataType.FLOAT


@dataclass
class Surroundings:
    """What a node computes around its layer.

    Attributes:
        inputs: ``residual``, ``norm_scale``, ``norm_bias`` -> the value, for those that exist.
        attributes: ``norm`` and ``epsilon``, if there is a norm.
        before: The norm before the layer.
        behind: The sum and the norm behind the layer.
    """

    x: ir.Value
    end: ir.Value
    inputs: dict[str, ir.Value] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    before: tuple[ir.Node, ...] = ()
    behind: tuple[ir.Node, ...] = ()

    def take_norm(self, place: str, node: ir.Node) -> None:
        """Note the norm."""
        scale, bias = input_at(node, 1), input_at(node, 2)
        assert scale is not None
        self.inputs |= {"norm_scale": scale} | ({} if bias is None else {"norm_bias": bias})
        self.attributes |= {"norm": f"{place}_{_NORMS[node.op_type]}", "epsilon": float_of(node, "epsilon", 1e-5)}


def before(x: ir.Value, end: ir.Value, layer: Collection[ir.Node]) -> Surroundings:
    """Find the norm before a layer, which only the nodes of the layer read."""
    found = Surroundings(x, end)
    node = x.producer()
    if node is not None and _is_norm(node) and not x.is_graph_output() and all(user in layer for user in x.consumers()):
        inner = node.inputs[0]
        same_graph = all(each.graph is node.graph for each in layer)
        if inner is not None and same_graph and are_alike(inner, x):
            found.x, found.before = inner, (node,)
            found.take_norm("pre", node)
    return found


def around(x: ir.Value, end: ir.Value, layer: Collection[ir.Node]) -> Surroundings:
    """Find the norm before a layer, the residual, and the norm behind."""
    found = before(x, end, layer)
    add = only_reader(end)
    if add is not None and is_standard(add, "Add"):
        other = next((value for value in inputs_of(add) if value is not end), None)
        total = add.outputs[0]
        if other is not None and other.dtype == _FLOAT and are_alike(end, other) and are_alike(end, total):
            found.inputs["residual"], found.end, found.behind = other, total, (add,)
    norm = None if found.before else only_reader(found.end)
    if norm is not None and _is_norm(norm) and norm.inputs[0] is found.end:
        found.take_norm("post", norm)
        found.end, found.behind = norm.outputs[0], (*found.behind, norm)
    return found


def _is_norm(node: ir.Node) -> bool:
    if not is_standard(node, *_NORMS) or node.inputs[0] is None:
        return False
    x, scale, bias = node.inputs[0], input_at(node, 1), input_at(node, 2)
    rows = [row for row in (scale, bias) if row is not None]
    return (
        scale is not None
        and all(constants.is_constant(row) and row.dtype == _FLOAT and is_row_of(row, x) for row in rows)
        and x.dtype == _FLOAT
        and is_along_last(node, x, -1)
        and int_of(node, "stash_type", 1) == _FLOAT.value
        and not any(map(is_read, node.outputs[1:]))
        and not math.isnan(float_of(node, "epsilon", 1e-5))
    )
