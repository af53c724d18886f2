"""Whole feed-forwards, as ``ort-cpu`` computes them; and what they cost more with the hidden layer split, or less.

They are timed with long inputs: a hidden layer of few rows is in the cache as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from ffn_export.core.onnx_file import from_proto
from ffn_export.core.types import Array
from ffn_export.fusion.forms.by_rows.split_hidden import MEASURED, SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.forms.choice import default_forms
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import get_target
from kernels.graphs import HIDDEN, WIDTH, Pair

TARGET = "ort-cpu"
# What stands between the products, the names of :mod:`ffn_export.modules.activations`.
_BODIES = {
    "gelu": "h = MatMul(x, w1) a = Add(h, b1) g = Gelu(a)",
    "gelu_tanh": 'h = MatMul(x, w1) a = Add(h, b1) g = Gelu<approximate = "tanh">(a)',
    "relu": "h = MatMul(x, w1) a = Add(h, b1) g = Relu(a)",
    "silu": "h = MatMul(x, w1) s = Sigmoid(h) a = Mul(h, s) u = MatMul(x, w3) g = Mul(a, u)",
}


@dataclass(frozen=True)
class FeedForward:
    """A feed-forward of 768 and 3072, in one of its forms.

    Attributes:
        activation: Its activation.
        is_split: Whether its hidden layer is split.
        tokens: The numbers of rows that it is timed with.
    """

    activation: str
    is_split: bool
    tokens: tuple[int, ...] = (512, 2048)

    @property
    def is_product(self) -> bool:
        """Whether it takes long, so that little is seen of it in a short time."""
        return True

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"FeedForward:{self.activation}{':split' if self.is_split else ''}"

    def pair(self, tokens: int, rng: np.random.Generator) -> Pair:
        """Return a graph without the feed-forward, or with the whole one, and one with it."""
        weights, body = _weights(rng), _BODIES[self.activation]
        less = _fused(body, weights) if self.is_split else _fused("", weights)
        more = _fused(body, weights, is_split=self.is_split)
        return Pair(less, more, {"x": rng.standard_normal((1, tokens, WIDTH), np.float32)}, tokens * WIDTH)


def _fused(body: str, weights: Mapping[str, Array], *, is_split: bool = False) -> bytes:
    """Return a model of a body and the second product; of no body one that does nothing."""
    rest = "o = MatMul(g, w2) z = Add(o, b2)" if body else "z = Identity(x)"
    names = [name for name in weights if f"{name})" in body + rest]
    placeholders = "".join(f", float[{','.join(map(str, weights[name].shape))}] {name}" for name in names)
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> feed_forward (float[batch,seq,{WIDTH}] x{placeholders}) '
        f"=> (float[batch,1,{WIDTH}] y) <int64[1] first = {{0}}> {{ {body} {rest} y = Gather<axis = 1>(z, first) }}"
    )
    del model.graph.input[1:]
    model.graph.initializer.extend(numpy_helper.from_array(weights[name], name) for name in names)
    split = frozenset({SPLIT_HIDDEN_LAYERS.name})
    whole = default_forms(get_target(TARGET)) - split
    fused, _ = fuse(from_proto(model), TARGET, forms=whole | split if is_split else whole)
    written: bytes = ir.to_proto(fused).SerializeToString()
    return written


def _weights(rng: np.random.Generator) -> dict[str, Array]:
    def matrix(d_in: int, d_out: int) -> Array:
        return rng.standard_normal((d_in, d_out), np.float32) / np.float32(d_in**0.5)

    return {
        "w1": matrix(WIDTH, HIDDEN),
        "b1": rng.standard_normal(HIDDEN, np.float32),
        "w3": matrix(WIDTH, HIDDEN),
        "w2": matrix(HIDDEN, WIDTH),
        "b2": rng.standard_normal(WIDTH, np.float32),
    }


FEED_FORWARDS = tuple(FeedForward(name, is_split) for name in MEASURED for is_split in (False, True))
assert set(MEASURED) == set(_BODIES)
