"""Write the body of a node of the contract in standard operators, in float32.

The body computes what ``docs/functions.md`` says of the node, from its inputs and attributes alone. So a runtime
without the kernels computes the same as one with them, and a body that disagreed with its graph would show in every
comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core.activations import TABLE
from ffn_export.core.formula import Term, parse
from ffn_export.fusion.builder import BodyBuilder
from ffn_export.fusion.functions import bodies
from ffn_export.fusion.functions.bodies import Setting
from ffn_export.fusion.functions.contract import ATTENTION, DOMAIN, LINEAR, Attribute, Call
from ffn_export.fusion.functions.portable import named

_FLOAT = ir.TensorType(ir.DataType.FLOAT)
# Activations whose bodies are formulas in ``bodies``: by the vendor's operator.
_FORMULAS = {
    "gelu": "Gelu",
    "gelu_tanh": "FastGelu",
    "silu": "QuickGelu",
    "quick_gelu": "QuickGelu",
    "swish": "QuickGelu",
}


def function_of(call: Call, opset: int) -> ir.Function:
    """Return the function of a node of a model with this opset, under the name of its kind."""
    formal = {name: ir.Value(name=name, type=_FLOAT) for name in call.kind.inputs[: call.arity]}
    body = _Body(opset, call, {name: value for name, value in formal.items() if name in call.inputs})
    results = body.write()
    names = ["y"] if len(results) == 1 else [f"y{place}" for place in range(len(results))]
    nodes = named(body.op.nodes, dict(zip(results, names, strict=True)), call.kind.inputs)
    graph = ir.Graph(list(formal.values()), results, nodes=nodes, opset_imports={"": opset}, name=call.kind.name)
    declared = [
        ir.Attr(name, ir.convenience.convert_attribute(name, value).type, None)
        for name, value in call.attributes.items()
    ]
    function = ir.Function(DOMAIN, call.kind.name, graph=graph, attributes=declared)
    function.doc_string = f"{call.kind.name}; docs/functions.md of ffn_export describes its inputs and attributes."
    return function


class _Body:
    """The nodes of one body."""

    def __init__(self, opset: int, call: Call, given: Mapping[str, ir.Value]) -> None:
        self.op = BodyBuilder()
        self._opset = opset
        self._call = call
        self._given = given

    def write(self) -> Sequence[ir.Value]:
        """Write the body and return its results."""
        if self._call.kind is ATTENTION:
            return [self._attention()]
        is_linear = self._call.kind is LINEAR
        layer = partial(self._product, weight="w", bias="b") if is_linear else self._feed_forward
        y = self._surrounded(layer)
        splits = self._attribute("splits")
        if splits is None:
            return [y]
        sizes = self.op.constant(np.asarray(splits, np.int64))
        return self.op.several("Split", len(np.atleast_1d(splits)), y, sizes, axis=-1)

    def _attribute(self, name: str) -> Attribute | None:
        return self._call.attributes.get(name)

    def _surrounded(self, layer: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """Write a layer with its norm, before or behind, and its residual."""
        place = str(self._attribute("norm") or "").partition("_")[0]
        x = self._given["x"]
        y = layer(self._normalised(x) if place == "pre" else x)
        if "residual" in self._given:
            y = self.op.Add(y, self._given["residual"])
        return self._normalised(y) if place == "post" else y

    def _normalised(self, x: ir.Value) -> ir.Value:
        norm = "RMSNormalization" if str(self._attribute("norm")).endswith("rms") else "LayerNormalization"
        rows = [self._given[name] for name in ("norm_scale", "norm_bias") if name in self._given]
        return self.op.write(norm, x, *rows, axis=-1, epsilon=self._attribute("epsilon"))

    def _product(self, x: ir.Value, weight: str, bias: str) -> ir.Value:
        w = self._given[weight]
        if self._attribute("transposed"):
            w = self.op.Transpose(w, perm=[1, 0])
        y = self.op.MatMul(x, w)
        return self.op.Add(y, self._given[bias]) if bias in self._given else y

    def _feed_forward(self, x: ir.Value) -> ir.Value:
        hidden = self._product(x, "w1", "b1")
        other: ir.Value | None = None
        packed = self._attribute("packed")
        if packed:
            halves = self.op.several("Split", 2, hidden, axis=-1, **({"num_outputs": 2} if self._opset >= 18 else {}))
            hidden, other = halves if packed == 1 else reversed(halves)
        elif "w3" in self._given:
            other = self._product(x, "w3", "b3")
        hidden = self._activated(hidden)
        return self._product(hidden if other is None else self.op.Mul(hidden, other), "w2", "b2")

    def _activated(self, x: ir.Value) -> ir.Value:
        """Write the activation; its formulas are in ``ffn_export/core/activations.py``."""
        return self._named(str(self._attribute("activation")), self._attribute("alpha"), x)

    def _named(self, name: str, alpha: Any, x: ir.Value) -> ir.Value:
        slope = {} if alpha is None else {"alpha": alpha}
        if name in _FORMULAS:
            (y,) = bodies.write(self.op, _FORMULAS[name], [x], Setting(self._opset, ir.DataType.FLOAT), slope)
            return y
        known = TABLE[name]
        if known.formula:
            return self._computed(parse(known.formula), x)
        return self.op.write(known.operators[0], x, **slope)

    def _computed(self, term: Term, x: ir.Value) -> ir.Value:
        """Write a term of a formula of ``x``; a square as a product, which no runtime computes by a logarithm."""
        if isinstance(term, float):
            return self.op.constant(np.asarray(term, np.float32))
        if isinstance(term, str):
            return x
        first, *others = (self._computed(each, x) for each in term.inputs)
        if term.operator in TABLE:
            return self._named(term.operator, TABLE[term.operator].alpha, first)
        if term.operator == "Pow" and term.inputs[1] == 2:
            return self.op.Mul(first, first)
        return self.op.write(term.operator, first, *others)

    def _attention(self) -> ir.Value:
        heads, groups, size = self._number("num_heads"), self._number("kv_num_heads"), self._call.head_size
        if "key" in self._given:
            query, key, value = (self._given[name] for name in ("query", "key", "value"))
        else:
            sizes = self.op.integers(heads * size, groups * size, groups * size)
            query, key, value = self.op.several("Split", 3, self._given["query"], sizes, axis=-1)
        query, key = self._by_head(query, heads, [0, 2, 1, 3]), self._by_head(key, groups, [0, 2, 3, 1])
        scores = self.op.MatMul(query, key)
        scale = float(self._call.attributes["scale"])  # type: ignore[arg-type]
        if scale != 1:
            scores = self.op.Mul(scores, self.op.constant(np.asarray(scale, np.float32)))
        if "bias" in self._given:
            scores = self.op.Add(scores, self._given["bias"])
        if self._attribute("causal"):
            hidden = ir.tensor(np.asarray([-np.inf], np.float32))
            full = self.op.ConstantOfShape(self.op.Shape(scores, start=2), value=hidden)
            full.type = _FLOAT
            scores = self.op.Add(scores, self.op.Trilu(full, self.op.constant(np.asarray(1, np.int64)), upper=1))
        weights = self.op.Softmax(scores, axis=-1)
        mixed = self.op.MatMul(weights, self._by_head(value, groups, [0, 2, 1, 3]))
        return self.op.Reshape(self.op.Transpose(mixed, perm=[0, 2, 1, 3]), self.op.integers(0, 0, heads * size))

    def _by_head(self, rows: ir.Value, count: int, order: Sequence[int]) -> ir.Value:
        """Write rows ``[batch, length, count * size]`` with an axis of heads, and repeat each for its group."""
        heads = self._number("num_heads")
        apart = self.op.Reshape(rows, self.op.integers(0, 0, count, self._call.head_size))
        y = self.op.Transpose(apart, perm=order)
        if count == heads:
            return y
        group = self.op.integers(*[head // (heads // count) for head in range(heads)])
        return self.op.Gather(y, group, axis=1)

    def _number(self, name: str) -> int:
        return int(self._call.attributes[name])  # type: ignore[arg-type]
