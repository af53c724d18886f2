"""Changes that leave the function as it is: a verifier that speaks up against one of them raises a false alarm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import (
    Editor,
    array_of,
    behind,
    bias_of,
    biased_sums,
    input_of,
    matrices,
    node_of,
    output_of,
    replaced,
    stored,
)


def _overridable(model: ir.Model) -> None:
    """List the initializers as inputs too, as exporters did before IR version 4."""
    model.graph.inputs.extend(model.graph.initializers.values())


def _renamed(model: ir.Model) -> None:
    for index, value in enumerate(list(model.graph.initializers.values())):
        value.name = f"onnx::MatMul_{index}"


def _axes_renamed(model: ir.Model) -> None:
    for value in (input_of(model), output_of(model)):
        value.shape = ir.Shape(["N", "T", 32])


def _stored_transposed(model: ir.Model) -> None:
    for weight in matrices(model):
        uses = weight.uses()
        edit = Editor(model)
        stored(weight, array_of(weight).T.copy())
        weight.shape = ir.Shape(array_of(weight).shape)
        upright = edit.Transpose(weight, perm=[1, 0])
        for node, index in uses:
            node.replace_input_with(index, upright)
    model.graph.sort()


def _units_permuted(model: ir.Model) -> None:
    """Number the hidden units in another order."""
    first, second = matrices(model)
    bias = bias_of(biased_sums(model)[0])
    order = np.random.default_rng(0).permutation(len(array_of(bias)))
    stored(first, array_of(first)[:, order])
    stored(bias, array_of(bias)[order])
    stored(second, array_of(second)[order])


def _up_and_down_scaled(model: ir.Model) -> None:
    """Double the up projection and halve the down projection: powers of two are exact."""
    _, up, down = matrices(model)
    stored(up, 2 * array_of(up))
    stored(down, array_of(down) / 2)


def _norm_scale_folded(model: ir.Model) -> None:
    """Multiply a norm's scale into the matrices that read the norm."""
    norm = node_of(model, "RMSNormalization")
    scale = norm.inputs[1]
    assert scale is not None
    for weight in matrices(model)[:2]:
        stored(weight, array_of(scale)[:, None] * array_of(weight))
    stored(scale, np.ones_like(array_of(scale)))


def _layer_norm_in_pieces(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale, bias = inputs
    centred = edit.Sub(x, edit.ReduceMean(x, edit.whole(-1)))
    variance = edit.ReduceMean(edit.Mul(centred, centred), edit.whole(-1))
    normed = edit.Div(centred, edit.Sqrt(edit.Add(variance, edit.number(1e-5))))
    return edit.Add(edit.Mul(normed, scale), bias)


def _erf_gelu_in_pieces(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    (x,) = inputs
    gate = edit.Add(edit.Erf(edit.Div(x, edit.number(math.sqrt(2)))), edit.number(1))
    return edit.Mul(edit.Mul(x, gate), edit.number(0.5))


def _tanh_gelu_as_sigmoid(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    """``(1 + tanh u) / 2`` is ``sigmoid(2 u)``."""
    (x,) = inputs
    cube = edit.Mul(edit.Mul(x, x), edit.Mul(x, edit.number(0.044715)))
    twice = edit.Mul(edit.Add(x, cube), edit.number(2 * math.sqrt(2 / math.pi)))
    return edit.Mul(x, edit.Sigmoid(twice))


def _in_double(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    doubles = [edit.Cast(value, to=ir.DataType.DOUBLE) for value in inputs]
    return edit.Cast(edit.MatMul(*doubles), to=ir.DataType.FLOAT)


def _written(operator: str, change: Callable[[Editor, Sequence[ir.Value]], ir.Value]) -> Callable[[ir.Model], None]:
    return lambda model: replaced(model, node_of(model, operator), change)


HARMLESS: tuple[tuple[str, str, Callable[[ir.Model], None]], ...] = (
    ("initializers that a caller may override", "post_norm", _overridable),
    ("initializers of other names", "post_norm", _renamed),
    ("axes of other names", "relu", _axes_renamed),
    ("matrices stored transposed", "pre_norm", _stored_transposed),
    ("hidden units in another order", "relu", _units_permuted),
    ("a scale moved from one matrix to another", "swiglu", _up_and_down_scaled),
    ("a norm's scale folded into the matrices behind it", "swiglu", _norm_scale_folded),
    ("a LayerNorm in pieces", "pre_norm", _written("LayerNormalization", _layer_norm_in_pieces)),
    ("an erf GELU in pieces", "post_norm", _written("Gelu", _erf_gelu_in_pieces)),
    ("a tanh GELU as a sigmoid", "pre_norm", _written("Gelu", _tanh_gelu_as_sigmoid)),
    ("a product in double precision", "relu", _written("MatMul", _in_double)),
    ("a node that does nothing", "decoder", lambda model: behind(model, output_of(model), lambda e, y: e.Identity(y))),
)
