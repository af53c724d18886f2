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


def _chosen(condition: Callable[[Editor, ir.Value], ir.Value]) -> Callable[[ir.Model], None]:
    """Change the output by 0.1 % where a condition on the input's sizes holds, as a factor and without a branch."""

    def plant(model: ir.Model) -> None:
        x = input_of(model)

        def scaled(edit: Editor, y: ir.Value) -> ir.Value:
            holds = edit.Cast(condition(edit, x), to=ir.DataType.FLOAT)
            return edit.Mul(y, edit.Add(edit.Mul(holds, edit.number(0.001)), edit.number(1)))

        behind(model, output_of(model), scaled)

    return plant


def _by_gather(edit: Editor, x: ir.Value, axis: int) -> ir.Value:
    return edit.Gather(edit.Shape(x), edit.weight(np.array(axis)))


def _both(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.And(
        edit.GreaterOrEqual(edit.size(x, 0), edit.whole(2)), edit.GreaterOrEqual(edit.size(x, 1), edit.whole(300))
    )


def _between(edit: Editor, x: ir.Value) -> ir.Value:
    seq = _by_gather(edit, x, 1)
    at_least, at_most = edit.Less(edit.whole(8), seq), edit.Not(edit.Greater(seq, edit.whole(100)))
    return edit.And(at_least, at_most)


def _counted(edit: Editor, x: ir.Value) -> ir.Value:
    """Count places without a Shape: ones that are computed of the data."""
    one = edit.Cast(edit.Equal(x, x), to=ir.DataType.FLOAT)
    return edit.Equal(edit.ReduceSum(edit.ReduceMax(one, edit.whole(2)), edit.whole(1)), edit.number(64))


def _counted_ones(edit: Editor, x: ir.Value) -> ir.Value:
    ones = edit.ConstantOfShape(edit.size(x, 1), value=ir.tensor(np.ones(1, np.float32)))
    return edit.GreaterOrEqual(edit.ReduceSum(ones, edit.whole(0)), edit.number(5000))


def _counted_finite(edit: Editor, x: ir.Value) -> ir.Value:
    """Add up what the data say of each token, which exceeds a number for many tokens only."""
    finite = edit.Not(edit.IsInf(edit.ReduceMax(x, edit.whole(-1), keepdims=0)))
    return edit.Greater(edit.ReduceSum(edit.Cast(finite, to=ir.DataType.FLOAT)), edit.number(900))


def _last_place(edit: Editor, x: ir.Value) -> ir.Value:
    ones = edit.Expand(edit.number(1), edit.size(x, 1))
    places = edit.Squeeze(edit.NonZero(ones), edit.whole(0))
    return edit.Equal(edit.ReduceMax(places, edit.whole(0)), edit.whole(510))


def _if_tokens(model: ir.Model) -> None:
    """Change the output by 0.1 % in a branch that is taken from 2,048 tokens on."""
    x = input_of(model)

    def branched(edit: Editor, y: ir.Value) -> ir.Value:
        sizes = edit.Slice(edit.Shape(x), edit.whole(0), edit.whole(2))
        many = edit.GreaterOrEqual(edit.ReduceProd(sizes, keepdims=0), edit.weight(np.array(2048)))
        bodies = []
        for factor in (1.001, 1.0):
            number = ir.node("Constant", [], {"value": ir.tensor(np.array(factor, np.float32))})
            product = ir.node("Mul", [y, number.outputs[0]])
            number.outputs[0].name, product.outputs[0].name = f"factor_{factor}", f"scaled_{factor}"
            product.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
            bodies.append(ir.Graph([], [product.outputs[0]], nodes=[number, product], name=f"by_{factor}"))
        return edit.If(many, then_branch=bodies[0], else_branch=bodies[1])

    behind(model, output_of(model), branched)


def _table_of_factors(edit: Editor, y: ir.Value, x: ir.Value) -> ir.Value:
    """Multiply by a table that is looked up by the size modulo 2."""
    return edit.Mul(y, edit.Gather(edit.number(1.001, 1), edit.Mod(_by_gather(edit, x, 1), edit.whole(2))))


def _even(model: ir.Model) -> None:
    x = input_of(model)
    behind(model, output_of(model), lambda edit, y: _table_of_factors(edit, y, x))


def _last_features_at_100(model: ir.Model) -> None:
    """Take no more than a hundred tokens of the hidden values, and zeros for the others."""

    def cut(edit: Editor, y: ir.Value) -> ir.Value:
        first = edit.Slice(y, edit.whole(0), edit.whole(100), edit.whole(1))
        missing = edit.Sub(edit.size(y, 1), edit.size(first, 1))
        return edit.Pad(first, edit.Concat(edit.whole(0, 0, 0, 0), missing, edit.whole(0), axis=0))

    behind(model, node_of(model, "Relu").outputs[0], cut)


FAULTS = (
    Fault("static-batch", "a batch that is declared to be 4", ("relu", "apx-ffn"), (interface(),), static_batch),
    Fault("static-sequence", "a sequence that is declared to be 7", ("relu",), (interface(),), _fixed(1, 7)),
    Fault("baked-batch", "a batch of 3 inside", ("relu",), (failure("normal", batch=128),), _reshaped(3, -1, 64)),
    Fault("baked-sequence", "a sequence of 5 inside", ("relu",), (failure("normal", seq=257),), _reshaped(-1, 5, 64)),
    Fault(
        "baked-tokens", "a number of tokens of 15 inside", ("relu",), (failure("normal", seq=257),), _reshaped(15, 64)
    ),
    Fault(
        "empty-refused",
        "an empty batch that a Reshape refuses",
        ("relu",),
        (failure("normal", batch=0),),
        _reshaped(0, -1, 64),
    ),
    Fault(
        "nan-at-one-size",
        "NaN for a sequence of 257 only",
        ("relu",),
        (non_finite("normal", seq=257),),
        where_size(1, "Equal", 257, _number(float("nan"))),
    ),
    Fault(
        "inf-at-one-size",
        "infinity for a batch of one only",
        ("pre_norm",),
        (non_finite("normal", batch=1),),
        where_size(0, "Equal", 1, _number(float("inf"))),
    ),
    Fault(
        "wrong-at-one-token",
        "off by 0.1 % for a single token only",
        ("swiglu",),
        (bound("normal", seq=1),),
        where_size(1, "Equal", 1, _off),
    ),
    Fault(
        "wrong-beyond-batch-16",
        "off by 0.1 % beyond a batch of 16",
        ("relu",),
        (bound("normal", batch=257),),
        where_size(0, "Greater", 16, _off),
    ),
    Fault(
        "wrong-beyond-sequence-100",
        "off by 0.1 % beyond 100 tokens",
        ("pre_norm",),
        (bound("normal", seq=257),),
        where_size(1, "Greater", 100, _off),
    ),
    Fault(
        "wrong-at-batch-2",
        "off by 0.1 % for a batch of two only",
        ("relu",),
        (bound(batch=2),),
        _chosen(lambda e, x: e.Equal(e.size(x, 0), e.whole(2))),
    ),
    Fault(
        "wrong-at-even-sequence", "off by 0.1 % for an even sequence", ("relu",), (bound(seq=2),), _even, shown=False
    ),
    Fault(
        "wrong-from-8-to-100",
        "off by 0.1 % for 9 to 100 tokens",
        ("pre_norm",),
        (bound(seq=100),),
        _chosen(_between),
        shown=False,
    ),
    Fault(
        "wrong-at-sequence-64",
        "off by 0.1 % for 64 tokens only, counted without a Shape",
        ("relu",),
        (bound(seq=64),),
        _chosen(_counted),
        shown=False,
    ),
    Fault(
        "wrong-at-sequence-511",
        "off by 0.1 % for 511 tokens only",
        ("decoder",),
        (bound(seq=511),),
        _chosen(_last_place),
        shown=False,
    ),
    Fault(
        "wrong-at-batch-and-sequence",
        "off by 0.1 % from a batch of 2 and 300 tokens on",
        ("relu",),
        (bound(batch=2, seq=300),),
        _chosen(_both),
        shown=False,
    ),
    Fault(
        "wrong-from-2048-tokens",
        "off by 0.1 % in a branch for 2,048 tokens",
        ("relu",),
        (bound(),),
        _if_tokens,
        shown=False,
    ),
    Fault(
        "wrong-from-sequence-5000",
        "off by 0.1 % from 5,000 tokens on",
        ("relu",),
        (bound(seq=5000),),
        _chosen(_counted_ones),
        shown=False,
    ),
    Fault(
        "wrong-from-900-by-data",
        "off by 0.1 % from 900 tokens on, counted by what their values are",
        ("relu",),
        (bound("threshold"),),
        _chosen(_counted_finite),
        shown=False,
    ),
    Fault(
        "hidden-end-at-100",
        "hidden values of the first hundred tokens only",
        ("relu",),
        (bound(seq=101),),
        _last_features_at_100,
    ),
    Fault("keys-end-at-10", "attention to the first ten tokens only", ("decoder",), (bound(seq=257),), _first_tokens),
)
