"""Graphs that are right at some sizes only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Editor, behind, input_of, node_of, nodes_of, output_of
from tests.parity.faults.fault import Fault, bound, failure, interface, non_finite


def _fixed(axis: int, size: int) -> Callable[[ir.Model], None]:
    """Declare a size of the first input."""

    def plant(model: ir.Model) -> None:
        value = input_of(model)
        assert value.shape is not None
        value.shape = ir.Shape([size if index == axis else dim for index, dim in enumerate(value.shape)])

    return plant


static_batch = _fixed(0, 4)


def where_size(
    axis: int, comparison: str, size: int, change: Callable[[Editor, ir.Value], ir.Value]
) -> Callable[[ir.Model], None]:
    """Change the output where the size of an axis compares so."""

    def plant(model: ir.Model) -> None:
        x = input_of(model)

        def chosen(edit: Editor, y: ir.Value) -> ir.Value:
            condition = edit.node(comparison, edit.size(x, axis), edit.whole(size)).outputs[0]
            return edit.Where(condition, change(edit, y), y)

        behind(model, output_of(model), chosen)

    return plant


def _number(number: float) -> Callable[[Editor, ir.Value], ir.Value]:
    return lambda edit, y: edit.Add(y, edit.number(number))


def _off(edit: Editor, y: ir.Value) -> ir.Value:
    return edit.Mul(y, edit.number(1.001))


def _reshaped(*sizes: int) -> Callable[[ir.Model], None]:
    """Put the hidden values through a shape that a trace has baked, and back."""

    def baked(edit: Editor, y: ir.Value) -> ir.Value:
        return edit.Reshape(edit.Reshape(y, edit.whole(*sizes)), edit.Shape(y))

    return lambda model: behind(model, node_of(model, "Relu").outputs[0], baked)


def _first_tokens(model: ir.Model) -> None:
    """Zero what comes after the tenth token of the attended values, as a buffer that is too short would."""
    softmax = nodes_of(model, "Softmax")[-1]

    def short(edit: Editor, weights: ir.Value) -> ir.Value:
        keys = edit.Range(edit.weight(np.array(0)), edit.Squeeze(edit.size(weights, -1)), edit.weight(np.array(1)))
        return edit.Where(edit.Less(keys, edit.whole(10)), weights, edit.number(0))

    behind(model, softmax.outputs[0], short)


FAULTS = (
    Fault("static-batch", "a batch that is declared to be 4", ("relu", "apx-ffn"), (interface(),), static_batch),
    Fault("static-sequence", "a sequence that is declared to be 7", ("relu",), (interface(),), _fixed(1, 7)),
    Fault("baked-batch", "a batch of 3 inside", ("relu",), (failure("normal", batch=257),), _reshaped(3, -1, 64)),
    Fault("baked-sequence", "a sequence of 5 inside", ("relu",), (failure("normal", seq=257),), _reshaped(-1, 5, 64)),
    Fault("baked-tokens", "a number of tokens of 15 inside", ("relu",), (failure("normal", seq=257),), _reshaped(15, 64)),
    Fault("empty-refused", "an empty batch that a Reshape refuses", ("relu",), (failure("normal", batch=0),), _reshaped(0, -1, 64)),
    Fault("nan-at-one-size", "NaN for a sequence of 257 only", ("relu",), (non_finite("normal", seq=257),), where_size(1, "Equal", 257, _number(float("nan")))),
    Fault("inf-at-one-size", "infinity for a batch of one only", ("pre_norm",), (non_finite("normal", batch=1),), where_size(0, "Equal", 1, _number(float("inf")))),
    Fault("wrong-at-one-token", "off by 0.1 % for a single token only", ("swiglu",), (bound("normal", seq=1),), where_size(1, "Equal", 1, _off)),
    Fault("wrong-beyond-batch-16", "off by 0.1 % beyond a batch of 16", ("relu",), (bound("normal", batch=257),), where_size(0, "Greater", 16, _off)),
    Fault("wrong-beyond-sequence-100", "off by 0.1 % beyond 100 tokens", ("pre_norm",), (bound("normal", seq=257),), where_size(1, "Greater", 100, _off)),
    Fault("keys-end-at-10", "attention to the first ten tokens only", ("decoder",), (bound(seq=257),), _first_tokens),
)  # fmt: skip
