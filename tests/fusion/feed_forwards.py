"""Small feed-forwards with drawn weights, in ONNX's text form."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.fusion.graphs import X, Y, model

PLAIN = "h = MatMul(x, w1) a = Add(h, b1) g = Gelu(a) o = MatMul(g, w2) y = Add(o, b2)"
GATED = "h = MatMul(x, w1) u = MatMul(x, w3) g = Relu(h) m = Mul(g, u) y = MatMul(m, w2)"
PACKED = "p = MatMul(x, w13) h, u = Split<axis = -1, num_outputs = 2>(p) g = Relu(h) m = Mul(g, u) y = MatMul(m, w2)"
SHAPES = {"w1": (8, 16), "b1": (16,), "w3": (8, 16), "w13": (8, 32), "b13": (32,), "w2": (16, 8), "b2": (8,)}


def feed_forward(body: str, *, inputs: str = X, outputs: str = Y, opset: int = 20) -> ir.Model:
    """Parse a body whose weights are named as in ``SHAPES``, and give it those that it reads."""
    draw = np.random.default_rng(5)
    read = [name for name in SHAPES if f"{name})" in body or f"{name}," in body]
    placeholders = ", ".join(f"float[{','.join(map(str, SHAPES[name]))}] {name}" for name in read)
    of = model(body, inputs=f"{inputs}, {placeholders}", outputs=outputs, opset=opset)
    for value in [value for value in of.graph.inputs if value.name in SHAPES]:
        of.graph.inputs.remove(value)
        array = draw.standard_normal(SHAPES[str(value.name)]).astype(np.float32) / 4
        value.const_value = ir.tensor(array, name=value.name)
        of.graph.register_initializer(value)
    return of
