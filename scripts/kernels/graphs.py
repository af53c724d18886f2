"""The graphs whose times are compared: two for each operator and number of tokens, which differ in that operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ffn_export.core.types import Array

WIDTH, HIDDEN = 768, 3072
# Enough that a product's weights (3 MiB) push its output out of the second cache, as those of 768 columns do; with 64
# Gemm seemed to cost half. With 768 a product takes so long that what stands beside it is lost in its own noise.
COLUMNS = 256
FEW, MANY = 2, 8
_OPSETS = (("", 23), ("com.microsoft", 1))

Draw = Callable[[np.random.Generator, int, int], Array]


@dataclass(frozen=True)
class Kernel:
    """An operator and how it is used.

    Attributes:
        name: Its name in the table.
        width: Of its rows.
        operands: Its inputs after the first one.
        attributes: Its attributes.
        product: Whether it is a product itself, or follows one: what adds a bias does, and finds the cache as the
            product left it. What it costs more than a bare product is measured then; of a ``whole`` product, all of it.
        columns: Of the rows that a product reads.
        tokens: The numbers of rows that it is timed with.
    """

    name: str
    width: int
    operands: tuple[Draw, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    product: Literal["is", "follows", "whole"] | None = None
    columns: int = COLUMNS
    tokens: tuple[int, ...] = (64, 512)

    @property
    def is_product(self) -> bool:
        """Whether products run too, beside which little is seen of it."""
        return self.product is not None

    def pair(self, tokens: int, rng: np.random.Generator) -> Pair:
        """Return the graphs that show its time at a number of tokens."""
        return pair(self, tokens, rng)

    def node(self, data: str, operands: list[str], result: str) -> onnx.NodeProto:
        """Return it as a node."""
        domain, _, name = self.name.rpartition("::")
        operator = name.partition(":")[0]
        return helper.make_node(operator, [data, *operands], [result], domain=domain, **self.attributes)


@dataclass(frozen=True)
class Pair:
    """Two models that take the same feeds, one of which computes more.

    Attributes:
        less: The one.
        more: The other.
        feeds: Input -> array.
        elements: How many elements the nodes have put out that only ``more`` has.
    """

    less: bytes
    more: bytes
    feeds: Mapping[str, Array]
    elements: int


def _row(rng: np.random.Generator, _tokens: int, width: int) -> Array:
    return rng.standard_normal(width, np.float32)


def _scale(rng: np.random.Generator, _tokens: int, width: int) -> Array:
    return 1 + rng.standard_normal(width, np.float32) / 4


def _rows(rng: np.random.Generator, tokens: int, width: int) -> Array:
    return rng.standard_normal((tokens, width), np.float32)


def _factors(rng: np.random.Generator, tokens: int, width: int) -> Array:
    """Draw around 1, so that no product of several is denormal."""
    return 1 + rng.standard_normal((tokens, width), np.float32) / 4


def _matrix(columns: int) -> Draw:
    def draw(rng: np.random.Generator, _tokens: int, width: int) -> Array:
        return rng.standard_normal((columns, width), np.float32) / np.float32(columns**0.5)

    return draw


_weight = _matrix(COLUMNS)
_PADDED = HIDDEN + 16  # one cache line


_MS = "com.microsoft::"
# The fourth output of the Skip… norms, the sum, is not asked for: it was measured, and costs nothing that shows.
KERNELS = (
    Kernel("Add", HIDDEN, (_row,), product="follows"),
    Kernel("Add:residual", WIDTH, (_rows,)),
    Kernel("Mul", HIDDEN, (_factors,)),
    Kernel("Relu", HIDDEN),
    Kernel("LeakyRelu", HIDDEN),
    Kernel("Elu", HIDDEN),
    Kernel("Tanh", HIDDEN),
    Kernel("Sigmoid", HIDDEN),
    Kernel("Gelu", HIDDEN),
    Kernel("Gelu:tanh", HIDDEN, attributes={"approximate": "tanh"}),
    Kernel(f"{_MS}Gelu", HIDDEN),
    Kernel(f"{_MS}BiasGelu", HIDDEN, (_row,), product="follows"),
    Kernel(f"{_MS}FastGelu", HIDDEN),
    Kernel(f"{_MS}FastGelu:bias", HIDDEN, (_row,), product="follows"),
    Kernel(f"{_MS}QuickGelu", HIDDEN),
    Kernel("LayerNormalization", WIDTH, (_scale, _row)),
    Kernel("RMSNormalization", WIDTH, (_scale,)),
    Kernel(f"{_MS}SkipLayerNormalization", WIDTH, (_rows, _scale, _row)),
    Kernel(f"{_MS}SkipSimplifiedLayerNormalization", WIDTH, (_rows, _scale)),
    Kernel("Gemm", HIDDEN, (_weight, _row), product="is"),
    Kernel(f"{_MS}FusedGemm:Relu", HIDDEN, (_weight, _row), {"activation": "Relu"}, product="is"),
    Kernel("MatMul:aliased", WIDTH, (_matrix(HIDDEN),), product="whole", columns=HIDDEN),
    Kernel("MatMul:padded", WIDTH, (_matrix(_PADDED),), product="whole", columns=_PADDED),
)
_MATMUL = Kernel("MatMul", HIDDEN, (_weight,), product="is")


def pair(kernel: Kernel, tokens: int, rng: np.random.Generator) -> Pair:
    """Return the graphs that show a kernel's time at a number of tokens.

    A product, and what follows one, is compared with a MatMul of the same matrices; a whole product with no node at
    all; any other kernel with itself, in a chain of two and of eight. So what a call of a session takes, and what the
    first node takes whose input may not be overwritten, is in both. Within the chain a kernel reads what was just
    written and writes in place where it can, as in a model.
    """
    operands = [draw(rng, tokens, kernel.width) for draw in kernel.operands]
    x = _rows(rng, tokens, kernel.width if kernel.product is None else kernel.columns)
    step = (kernel, operands)
    if kernel.product is None:
        return Pair(_model([step] * FEW, x), _model([step] * MANY, x), {"x": x}, (MANY - FEW) * tokens * kernel.width)
    if kernel.product == "whole":
        return Pair(_model([], x), _model([step], x), {"x": x}, tokens * kernel.width)
    weight = operands[0] if kernel.product == "is" else _weight(rng, tokens, kernel.width)
    matmul = (_MATMUL, [weight])
    more = [step] if kernel.product == "is" else [matmul, step]
    return Pair(_model([matmul], x), _model(more, x), {"x": x}, tokens * kernel.width)


def _model(steps: Sequence[tuple[Kernel, list[Array]]], x: Array) -> bytes:
    """Return a chain of kernels with their operands; one row is put out, so that no large output is made in a call."""
    constants = {id(each): (f"c{id(each)}", each) for _, operands in steps for each in operands}
    names = ["x", *(f"y{number}" for number in range(1, len(steps) + 1))]
    nodes = [
        kernel.node(data, [constants[id(each)][0] for each in operands], result)
        for (kernel, operands), data, result in zip(steps, names[:-1], names[1:], strict=True)
    ]
    nodes.append(helper.make_node("Gather", [names[-1], "first"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "kernels",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, steps[-1][0].width if steps else x.shape[1]])],
        [numpy_helper.from_array(each, name) for name, each in (*constants.values(), ("first", np.zeros(1, np.int64)))],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model
