"""Small feed-forwards with drawn weights, in ONNX's text form."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.fusion.graphs import X, Y, model

PLAIN = "h = MatMul(x, w1) a = Add(h, b1) g = Gelu(a) o = MatMul(g, w2) y = Add(o, b2)"
GATED = "h = MatMul(x, w1) u = MatMul(x, w3) g = Relu(h) m = Mul(g, u) y = MatMul(m, w2)"
PACKED = "p = MatMul(x, w13) h, u = Split<axis = -1, num_outputs = 2>(p) g = Relu(h) m = Mul(g, u) y = MatMul(m, w2)"


def shapes(d_model: int = 8, d_ff: int = 16) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights, by their names in a body."""
    first, packed, row = (d_model, d_ff), (d_model, 2 * d_ff), (d_ff,)
    return {
        "w1": first,
        "b1": row,
        "w3": first,
        "w13": packed,
        "b13": (2 * d_ff,),
        "w2": (d_ff, d_model),
        "b2": (d_model,),
        "scale1": row,
        "t1": (d_ff, d_model),
        "t2": (d_model, d_ff),
    }


def feed_forward(
    body: str, *, inputs: str = X, outputs: str = Y, opset: int = 20, widths: tuple[int, int] = (8, 16)
) -> ir.Model:
    """Parse a body whose weights are named as in :func:`shapes`, and give it those that it reads."""
    draw = np.random.default_rng(5)
    sizes = shapes(*widths)
    read = [name for name in sizes if f"{name})" in body or f"{name}," in body]
    placeholders = ", ".join(f"float[{','.join(map(str, sizes[name]))}] {name}" for name in read)
    of = model(body, inputs=f"{inputs}, {placeholders}", outputs=outputs, opset=opset)
    for value in [value for value in of.graph.inputs if value.name in sizes]:
        of.graph.inputs.remove(value)
        array = draw.standard_normal(sizes[str(value.name)]).astype(np.float32) / np.float32(widths[1] ** 0.5)
        value.const_value = ir.tensor(array, name=value.name)
        of.graph.register_initializer(value)
    return of
