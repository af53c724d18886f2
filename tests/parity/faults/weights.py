"""Wrong numbers in initializers: what a conversion script, a wrong checkpoint or a pruning pass leaves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Array, array_of, bias_of, biased_sums, largest, matrices, stored
from tests.parity.faults.fault import Fault, bound, non_finite, weights

PRESETS = ("bert-ffn", "llama-ffn", "numpy-ffn")


def one_weight(model: ir.Model, change: Callable[[float], float], index: int = 0) -> None:
    """Change one element of the largest initializer; ``index`` counts from its largest magnitude down."""
    value = largest(model)
    array = array_of(value)
    flat = array.reshape(-1)
    where = np.argsort(-np.abs(flat))[index]
    flat[where] = change(flat[where])
    stored(value, array)


def scaled_weight(factor: float, index: int = 0) -> Callable[[ir.Model], None]:
    """Scale one of its elements."""
    return partial(one_weight, change=lambda weight: weight * factor, index=index)


def nan_weight(model: ir.Model) -> None:
    """Put a NaN into the largest initializer."""
    one_weight(model, lambda weight: float("nan"))


def matrix(model: ir.Model, change: Callable[[Array], Array], index: int = 0) -> None:
    """Change the weight of a matrix product, counted from the first."""
    value = matrices(model)[index]
    stored(value, change(array_of(value)))


def named(model: ir.Model, name: str, change: Callable[[Array], Array]) -> None:
    """Change an initializer by name."""
    value = model.graph.initializers[name]
    stored(value, change(array_of(value)))


def exchanged(one: str, other: str) -> Callable[[ir.Model], None]:
    """Exchange two initializers."""

    def plant(model: ir.Model) -> None:
        first, second = (array_of(model.graph.initializers[name]) for name in (one, other))
        named(model, one, lambda _: second)
        named(model, other, lambda _: first)

    return plant


def exchanged_matrices(one: int, other: int) -> Callable[[ir.Model], None]:
    """Exchange the weights of two matrix products."""

    def plant(model: ir.Model) -> None:
        first, second = (array_of(matrices(model)[index]) for index in (one, other))
        matrix(model, lambda _: second, one)
        matrix(model, lambda _: first, other)

    return plant


def _rows_exchanged(array: Array) -> Array:
    return array[[1, 0, *range(2, len(array))]]


def _last_unit_pruned(model: ir.Model) -> None:
    """Zero the column of W1, the bias and the row of W2 that belong to the hidden unit of the smallest weights."""

    def prune(array: Array) -> Array:
        array[:, np.abs(array).sum(axis=0).argmin()] = 0
        return array

    matrix(model, prune)


def _layer_twice(model: ir.Model) -> None:
    """Write the first layer's matrices into the second layer, too."""
    found = matrices(model)
    half = (len(found) - 1) // 2  # the last one is the table of tokens
    for first, second in zip(found[:half], found[half:], strict=False):
        stored(second, array_of(first))


def _layers_exchanged(model: ir.Model) -> None:
    found = matrices(model)
    half = (len(found) - 1) // 2
    for index in range(half):
        exchanged_matrices(index, half + index)(model)


def _bias_zero(model: ir.Model) -> None:
    bias = bias_of(biased_sums(model)[0])
    stored(bias, np.zeros_like(array_of(bias)))


def _bias_doubled(model: ir.Model) -> None:
    bias = bias_of(biased_sums(model)[0])
    stored(bias, 2 * array_of(bias))


def _fourth_off(array: Array) -> Array:
    array[3] *= np.float32(1.001)
    return array


def _untied(model: ir.Model) -> None:
    """Retrain the last linear a little: it is no longer the table of tokens."""
    noise = np.random.default_rng(0)
    matrix(model, lambda a: (a * (1 + 1e-3 * noise.standard_normal(a.shape))).astype(a.dtype), -1)


def _as_constants(model: ir.Model) -> None:
    """Write every initializer as a ``Constant`` node."""
    for value in list(model.graph.initializers.values()):
        node = ir.node("Constant", [], {"value": ir.Tensor(array_of(value), name=value.name)})
        model.graph.insert_before(model.graph[0], node)
        del model.graph.initializers[str(value.name)]
        node.outputs[0].name = value.name
        node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
        ir.convenience.replace_all_uses_with(value, node.outputs[0])


def _in_constant(name: str, change: Callable[[Array], Array]) -> Callable[[ir.Model], None]:
    """Change a constant that is a ``Constant`` node and no initializer."""

    def plant(model: ir.Model) -> None:
        named(model, name, change)
        _as_constants(model)

    return plant


def _in_a_body(model: ir.Model) -> None:
    """Put a product and its weight, off by 0.1 %, into a function."""
    scaled_weight(1.001)(model)
    weight = largest(model)
    product = next(node for node, _ in weight.uses())
    x = ir.Value(name="x")
    constant = ir.node("Constant", [], {"value": ir.Tensor(array_of(weight), name="w")})
    inner = ir.node("MatMul", [x, constant.outputs[0]])
    graph = ir.Graph([x], inner.outputs, nodes=[constant, inner], opset_imports={"": 20}, name="Product")
    function = ir.Function("tests", "Product", graph=graph, attributes=[])
    model.functions[function.identifier()] = function
    model.opset_imports["tests"] = 1
    product.domain, product.op_type = "tests", "Product"
    product.resize_inputs(1)
    del model.graph.initializers[str(weight.name)]


def _folded_norm(model: ir.Model) -> None:
    """Fold a norm's scale into the matrices behind it, with one element off by 0.1 %."""
    scale = model.graph.initializers["norm.weight"]
    for index in (0, 1):
        matrix(model, lambda array: (array_of(scale)[:, None] * array).astype(array.dtype), index)
    stored(scale, np.ones_like(array_of(scale)))
    scaled_weight(1.001)(model)


def _row_doubled(array: Array) -> Array:
    array[7] *= 2
    return array


FAULTS = (
    Fault(
        "weight-0.1%", "one weight off by 0.1 %", ("swiglu", "decoder", *PRESETS), (weights(),), scaled_weight(1.001)
    ),
    Fault("weight-1%", "one weight off by 1 %", ("post_norm", *PRESETS), (weights(),), scaled_weight(1.01)),
    Fault(
        "small-weight-1%",
        "one of the smallest weights off by 1 %",
        ("post_norm", "bert-ffn"),
        (weights(),),
        scaled_weight(1.01, -1),
    ),
    Fault(
        "weight-sign",
        "the sign of one weight",
        ("pre_norm",),
        (weights(),),
        partial(one_weight, change=lambda w: -w, index=100),
    ),
    Fault(
        "small-weight-zero",
        "the smallest weight set to zero",
        ("pre_norm",),
        (weights(),),
        partial(one_weight, change=lambda w: 0, index=-1),
    ),
    Fault(
        "weight-last-bit",
        "one weight off by its last bit",
        ("relu",),
        (weights(),),
        partial(one_weight, change=lambda w: np.nextafter(w, np.inf)),
    ),
    Fault("weight-nan", "one weight is NaN", ("relu",), (weights(), non_finite()), nan_weight),
    Fault(
        "weight-0.1%-packed",
        "one weight of a packed gate and up off by 0.1 %",
        ("offset_geglu",),
        (weights(),),
        scaled_weight(1.001),
    ),
    Fault(
        "rows-exchanged",
        "two rows of a matrix exchanged",
        ("swiglu",),
        (weights(), bound()),
        partial(matrix, change=_rows_exchanged),
    ),
    Fault("unit-pruned", "one hidden unit pruned", ("swiglu",), (weights(), bound()), _last_unit_pruned),
    Fault(
        "square-transposed",
        "a square matrix transposed",
        ("square",),
        (bound(),),
        partial(matrix, change=lambda a: a.T.copy()),
    ),
    Fault(
        "norm-scale-0.1%",
        "one element of a norm's scale off by 0.1 %",
        ("post_norm", "swiglu"),
        (weights(),),
        partial(named, name="norm.weight", change=_fourth_off),
    ),
    Fault(
        "folded-norm-scale-0.1%",
        "one element of a folded 1 + weight off by 0.1 %",
        ("offset_geglu",),
        (weights(), bound()),
        partial(named, name="add", change=_fourth_off),
    ),
    Fault(
        "norms-exchanged",
        "the scales of two norms exchanged",
        ("decoder",),
        (bound(),),
        exchanged("layers.0.attention_norm.weight", "layers.1.attention_norm.weight"),
    ),
    Fault("bias-zero", "a bias set to zero", ("relu",), (bound(),), _bias_zero),
    Fault(
        "bias-doubled", "a bias that is twice its parameter", ("relu", "transformer-base"), (bound(),), _bias_doubled
    ),
    Fault("gate-and-up-exchanged", "gate and up exchanged", ("swiglu",), (bound(),), exchanged_matrices(0, 1)),
    Fault("query-and-key-exchanged", "query and key exchanged", ("decoder",), (bound(),), exchanged_matrices(0, 1)),
    Fault("layer-twice", "the first layer's matrices in the second layer, too", ("decoder",), (bound(),), _layer_twice),
    Fault("layers-exchanged", "the matrices of two layers exchanged", ("decoder",), (bound(),), _layers_exchanged),
    Fault(
        "head-zero",
        "one head's values zeroed",
        ("decoder",),
        (bound(),),
        partial(matrix, change=lambda a: np.where(np.arange(a.shape[1]) < 8, 0, a).astype(a.dtype), index=2),
    ),
    Fault("untied", "an output matrix that is no longer the table of tokens", ("decoder",), (bound(),), _untied),
    Fault(
        "positions-shifted",
        "a table of positions that begins one row late",
        ("decoder",),
        (bound(),),
        partial(named, name="positions.weight", change=lambda a: np.roll(a, -1, axis=0)),
    ),
    Fault(
        "table-row-doubled",
        "a row of a table of tokens doubled, all weights being Constant nodes",
        ("decoder",),
        (weights(),),
        _in_constant("tokens.weight", _row_doubled),
    ),
    Fault(
        "position-doubled",
        "a row of a table of positions doubled, all weights being Constant nodes",
        ("decoder",),
        (weights(),),
        _in_constant("positions.weight", _row_doubled),
    ),
    Fault(
        "body-weight-0.1%",
        "one weight within a function body off by 0.1 %",
        ("swiglu", "relu"),
        (weights(),),
        _in_a_body,
    ),
    Fault(
        "folded-norm-0.1%",
        "a norm folded into the matrices behind it, one element off by 0.1 %",
        ("swiglu",),
        (weights(),),
        _folded_norm,
    ),
)
