"""Models of one node of the domain ``ai.ffn_export``, with its body in standard operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

DOMAIN = "ai.ffn_export"
INPUTS = {
    "FeedForward": ["x", "w1", "b1", "w2", "b2", "w3", "b3", "residual", "norm_scale", "norm_bias"],
    "Linear": ["x", "w", "b", "residual", "norm_scale", "norm_bias"],
    "Attention": ["query", "key", "value", "bias"],
}
Arrays = Mapping[str, Any]


class _Body:
    """Nodes of a function that are written one after the other."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []

    def __call__(self, op: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        names = list(outputs) or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0]

    def constant(self, value: Any) -> str:
        return self("Constant", value=numpy_helper.from_array(np.asarray(value)))


def _norm(op: _Body, x: str, attributes: Mapping[str, Any], given: Sequence[str]) -> str:
    scales = [name for name in ("norm_scale", "norm_bias") if name in given]
    kind = "LayerNormalization" if attributes["norm"].endswith("layer") else "RMSNormalization"
    return op(kind, x, *scales, axis=-1, epsilon=attributes["epsilon"])


def _surrounded(op: _Body, attributes: Mapping[str, Any], given: Sequence[str], layer: Any) -> str:
    place = attributes.get("norm", "").partition("_")[0]
    y: str = layer(_norm(op, "x", attributes, given) if place == "pre" else "x")
    if "residual" in given:
        y = op("Add", y, "residual")
    return _norm(op, y, attributes, given) if place == "post" else y


def _product(op: _Body, x: str, w: str, b: str, given: Sequence[str], transposed: bool) -> str:
    y = op("MatMul", x, op("Transpose", w, perm=[1, 0]) if transposed else w)
    return op("Add", y, b) if b in given else y


def _feed_forward(op: _Body, attributes: Mapping[str, Any], given: Sequence[str]) -> str:
    transposed = bool(attributes.get("transposed"))
    activation = {"relu": "Relu", "gelu": "Gelu", "silu": "Sigmoid"}[attributes["activation"]]

    def layer(x: str) -> str:
        before = _product(op, x, "w1", "b1", given, transposed)
        hidden = op(activation, before)
        if activation == "Sigmoid":
            hidden = op("Mul", before, hidden)
        if "w3" in given:
            hidden = op("Mul", hidden, _product(op, x, "w3", "b3", given, transposed))
        return _product(op, hidden, "w2", "b2", given, transposed)

    return _surrounded(op, attributes, given, layer)


def _attention(op: _Body, attributes: Mapping[str, Any], given: Sequence[str], size: int) -> str:
    heads, groups = attributes["num_heads"], attributes["kv_num_heads"]
    names = ["query", "key", "value"]
    if "key" not in given:
        sizes = op.constant(np.asarray([heads * size, groups * size, groups * size], np.int64))
        names = ["q", "k", "v"]
        op("Split", "query", sizes, axis=-1, outputs=names)

    def by_head(name: str, count: int, order: Sequence[int]) -> str:
        y = op("Transpose", op("Reshape", name, op.constant(np.asarray([0, 0, count, size], np.int64))), perm=order)
        if count == heads:
            return y
        return op("Gather", y, op.constant(np.arange(heads, dtype=np.int64) // (heads // groups)), axis=1)

    query, key = by_head(names[0], heads, [0, 2, 1, 3]), by_head(names[1], groups, [0, 2, 3, 1])
    scores = op("Mul", op("MatMul", query, key), op.constant(np.float32(attributes["scale"])))
    if "bias" in given:
        scores = op("Add", scores, "bias")
    if attributes["causal"]:
        hidden = numpy_helper.from_array(np.asarray([-np.inf], np.float32))
        full = op("ConstantOfShape", op("Shape", scores, start=2), value=hidden)
        scores = op("Add", scores, op("Trilu", full, op.constant(np.int64(1)), upper=1))
    y = op("MatMul", op("Softmax", scores, axis=-1), by_head(names[2], groups, [0, 2, 1, 3]))
    y = op("Transpose", y, perm=[0, 2, 1, 3])
    return op("Reshape", y, op.constant(np.asarray([0, 0, heads * size], np.int64)))


def model(kind: str, fed: Arrays, constant: Arrays, size: int = 0, opset: int = 23, **attributes: Any) -> bytes:
    """Write a model of one node, of inputs that are fed and others that are constant; `size` is that of a head."""
    op, given = _Body(), [*fed, *constant]
    names = INPUTS[kind][: 1 + max(INPUTS[kind].index(name) for name in given)]
    outputs = ["y"]
    if kind == "FeedForward":
        y = _feed_forward(op, attributes, given)
    elif kind == "Attention":
        y = _attention(op, attributes, given, size)
    else:
        transposed = bool(attributes.get("transposed"))
        y = _surrounded(op, attributes, given, lambda x: _product(op, x, "w", "b", given, transposed))
    if "splits" in attributes:
        outputs = [f"y{i}" for i in range(len(attributes["splits"]))]
        op("Split", y, op.constant(np.asarray(attributes["splits"], np.int64)), axis=-1, outputs=outputs)
    else:
        op("Identity", y, outputs=outputs)

    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 2)]
    function = helper.make_function(DOMAIN, kind, names, outputs, op.nodes, opsets[:1], sorted(attributes))
    node = helper.make_node(kind, [n if n in given else "" for n in names], outputs, domain=DOMAIN, **attributes)
    floating = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "one_node",
        [helper.make_tensor_value_info(name, floating, [None] * np.ndim(value)) for name, value in fed.items()],
        [helper.make_tensor_value_info(name, floating, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constant.items()],
    )
    written = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function])
    data: bytes = written.SerializeToString()
    return data
