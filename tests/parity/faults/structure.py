"""Sums, layers and biases that are missing, doubled or in another place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import torch
from torch import nn

from ffn_export.modules.block import FeedForwardBlock
from tests.parity.faults import modules
from tests.parity.faults.edit import Editor, behind, bias_of, biased_sums, node_of, nodes_of, output_of, residual_sums
from tests.parity.faults.fault import Fault, bound, check


def _residual(change: Callable[[Editor, ir.Value, ir.Value], ir.Value]) -> Callable[[ir.Model], None]:
    """Compute something else of the residual and of what is added to it."""

    def plant(model: ir.Model) -> None:
        add = residual_sums(model)[0]
        values = [value for value in add.inputs if value is not None]
        stream = next(value for value in values if value.is_graph_input())
        added = next(value for value in values if value is not stream)
        behind(model, add.outputs[0], lambda edit, _: change(edit, stream, added))

    return plant


def _without_bias(model: ir.Model) -> None:
    add = biased_sums(model)[0]
    product = next(value for value in add.inputs if value is not None and not value.is_initializer())
    behind(model, add.outputs[0], lambda edit, _: edit.Identity(product))


def _bias_again(model: ir.Model) -> None:
    add = biased_sums(model)[-1]
    behind(model, add.outputs[0], lambda edit, y: edit.Add(y, bias_of(add)))


def _dropout(model: ir.Model) -> None:
    last = nodes_of(model, "MatMul")[-1].outputs[0]

    def drop(edit: Editor, y: ir.Value) -> ir.Value:
        return edit.Dropout(y, edit.number(0.1), edit.weight(np.array(True)))

    behind(model, last, drop)


def _final_norm_missing(model: ir.Model) -> None:
    norm = nodes_of(model, "LayerNormalization")[-1]
    x = norm.inputs[0]
    assert x is not None
    behind(model, norm.outputs[0], lambda edit, _: edit.Identity(x))


def _layer_left_out(model: ir.Model) -> None:
    """Let the norm at the end read what the first of the two layers gave."""
    norms = nodes_of(model, "LayerNormalization")
    norms[-1].replace_input_with(0, norms[1].outputs[0])


def _tokens_shifted(model: ir.Model) -> None:
    """Give each token the result of the one before it."""

    def shift(edit: Editor, y: ir.Value) -> ir.Value:
        first = edit.Slice(y, edit.whole(0), edit.whole(1), edit.whole(1))
        rest = edit.Slice(y, edit.whole(0), edit.whole(-1), edit.whole(1))
        return edit.Concat(first, rest, axis=1)

    behind(model, output_of(model), shift)


def _split_off_by_one(model: ir.Model) -> None:
    """Cut gate and up one column late, which the last column of the gate pays for."""
    split = node_of(model, "Split")
    packed = split.inputs[0]
    assert packed is not None
    gate, up = split.outputs
    whole = {"gate": (1, 49), "up": (48, 96)}

    def part(name: str) -> Callable[[Editor, ir.Value], ir.Value]:
        start, end = whole[name]
        return lambda edit, _: edit.Slice(packed, edit.whole(start), edit.whole(end), edit.whole(-1))

    behind(model, gate, part("gate"))
    behind(model, up, part("up"))


def _pre_for_post(module: nn.Module) -> None:
    assert isinstance(module, FeedForwardBlock)
    module.norm_position = "pre"


def _stale(module: nn.Module) -> None:
    """Give it the weights that it would have from another seed."""
    torch.manual_seed(1)
    module.load_state_dict(modules.post_norm().state_dict())


FAULTS = (
    Fault("bias-missing", "no bias in the first linear", ("relu", "encoder"), (bound("normal"),), _without_bias),
    Fault("bias-twice", "the last bias added twice", ("post_norm", "encoder"), (bound("normal"),), _bias_again),
    Fault(
        "residual-missing",
        "no residual",
        ("post_norm", "pre_norm"),
        (bound("normal"),),
        _residual(lambda edit, _, added: edit.Identity(added)),
    ),
    Fault(
        "residual-twice",
        "the residual added twice",
        ("swiglu",),
        (bound("normal"),),
        _residual(lambda edit, x, y: edit.Add(edit.Add(x, x), y)),
    ),
    Fault(
        "residual-scaled",
        "the residual off by 0.1 %",
        ("pre_norm",),
        (bound("normal"),),
        _residual(lambda edit, x, y: edit.Add(edit.Mul(x, edit.number(1.001)), y)),
    ),
    Fault(
        "sublayer-scaled",
        "a dropout's factor of 0.9 left in",
        ("pre_norm",),
        (bound("normal"),),
        _residual(lambda edit, x, y: edit.Add(x, edit.Mul(y, edit.number(0.9)))),
    ),
    Fault("dropout-active", "dropout left active", ("relu",), (check("inference only"),), _dropout, shown=False),
    Fault(
        "norm-pre-for-post",
        "the norm before the feed-forward and not after the sum",
        ("post_norm",),
        (bound("normal"),),
        module=_pre_for_post,
    ),
    Fault("stale-weights", "the weights of another seed", ("post_norm",), (bound("normal"),), module=_stale),
    Fault(
        "final-norm-missing",
        "no norm after the last layer",
        ("encoder", "decoder"),
        (bound("normal"),),
        _final_norm_missing,
    ),
    Fault("layer-missing", "the second layer left out", ("encoder",), (bound("normal"),), _layer_left_out),
    Fault(
        "tokens-shifted", "each token has the result of the one before", ("relu",), (bound("normal"),), _tokens_shifted
    ),
    Fault(
        "slice-off-by-one",
        "the gate cut out of a packed product one column late",
        ("offset_geglu",),
        (bound("normal"),),
        _split_off_by_one,
    ),
)
