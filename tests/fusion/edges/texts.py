"""Graphs that several themes put into others, and how one is changed."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from tests.fusion.edges.edge import Edge
from tests.fusion.edges.snippets import AFFINE, ERF, TANH, WEIGHTS, both, gelu, layer_norm

CONSTANTS = both(ERF, AFFINE, WEIGHTS, ", ".join(TANH.split(", ")[:3]))
RELU = "m = MatMul(x, w1) a = Add(m, b1) h = Relu(a) y = MatMul(h, w2)"
LAYER = f"m = MatMul(x, w1) a = Add(m, b1) {gelu('a', 'h')} n = MatMul(h, w2) o = Add(n, b2) p = Add(o, x) {layer_norm('p', 'y')}"
FLAG = "float[batch,seq,8] x, bool c"


def changed(of: Edge, change: Callable[[onnx.ModelProto], object], name: str, fused: str | None = None) -> Edge:
    """Return an edge with a change made to its proto."""
    proto = onnx.ModelProto()
    proto.CopyFrom(of.proto)
    change(proto)
    return Edge(name, proto, None if fused is None else tuple(fused.split()), of.scale)
