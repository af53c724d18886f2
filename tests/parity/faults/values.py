"""Graphs that are right for some values only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Change, Editor, behind, input_of, node_of, output_of
from tests.parity.faults.fault import Fault, bound, non_finite
from tests.parity.faults.modules import LARGE_VOCABULARY


def _zero_over_zero(model: ir.Model) -> None:
    """Scale by a sum over itself: one, and NaN where everything is zero."""
    x = input_of(model)

    def scaled(edit: Editor, y: ir.Value) -> ir.Value:
        total = edit.ReduceSum(edit.Abs(x), edit.whole(-1))
        return edit.Mul(y, edit.Div(total, total))

    behind(model, output_of(model), scaled)


def _spread_over_spread(model: ir.Model) -> None:
    """The same with the spread of a row: NaN where a row is constant."""
    x = input_of(model)

    def scaled(edit: Editor, y: ir.Value) -> ir.Value:
        high, low = edit.ReduceMax(x, edit.whole(-1)), edit.ReduceMin(x, edit.whole(-1))
        spread = edit.Sub(high, low)
        return edit.Mul(y, edit.Div(spread, spread))

    behind(model, output_of(model), scaled)


def _nan_to_zero(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.Where(edit.IsNaN(x), edit.number(0), x)


def _clipped(limit: float) -> Change:
    return lambda edit, x: edit.Clip(x, edit.number(-limit), edit.number(limit))


def _nan_to_zero_behind_first(edit: Editor, x: ir.Value) -> ir.Value:
    """NaN stays NaN in the first feature alone."""
    assert x.shape is not None
    width = x.shape[-1]
    assert isinstance(width, int)
    return edit.Where(edit.weight(np.arange(width) > 0), _nan_to_zero(edit, x), x)


def _behind_a_token(edit: Editor, ids: ir.Value) -> ir.Value:
    """Take token 40 in front of token 45 for another one."""
    one, end = edit.whole(1), edit.whole(2**31)
    following = edit.Concat(edit.Slice(ids, one, end, one), edit.Slice(ids, edit.whole(0), one, one), axis=1)
    is_pair = edit.And(edit.Equal(ids, edit.whole(40)), edit.Equal(following, edit.whole(45)))
    return edit.Where(is_pair, edit.whole(3), ids)


def _nan_to_zero_in_one(edit: Editor, x: ir.Value) -> ir.Value:
    """NaN becomes zero in one feature alone, in the middle."""
    assert x.shape is not None
    width = x.shape[-1]
    assert isinstance(width, int)
    return edit.Where(edit.weight(np.arange(width) == width // 3), _nan_to_zero(edit, x), x)


def _second_of_a_token(edit: Editor, ids: ir.Value) -> ir.Value:
    """Take the second token 12,345 of a row for another one."""
    is_one = edit.Equal(ids, edit.whole(12345))
    count = edit.CumSum(edit.Cast(is_one, to=ir.DataType.INT64), edit.weight(np.array(1)))
    return edit.Where(edit.And(is_one, edit.Equal(count, edit.whole(2))), edit.whole(3), ids)


def _below(limit: float) -> Change:
    return lambda edit, x: edit.Where(edit.Less(x, edit.number(limit)), edit.number(0), x)


def _bent(limit: float) -> Change:
    """Without any comparison: what is above a limit is taken off."""
    return lambda edit, x: edit.Sub(x, edit.Relu(edit.Sub(x, edit.number(limit))))


def _replaced_at(number: float) -> Change:
    return lambda edit, x: edit.Where(edit.Equal(x, edit.number(number)), edit.number(99), x)


def _beyond_mean(limit: float) -> Change:
    def changed(edit: Editor, x: ir.Value) -> ir.Value:
        mean = edit.ReduceMean(x, edit.whole(-1))
        return edit.Where(edit.Greater(mean, edit.number(limit)), edit.number(0), x)

    return changed


def _overflowing(model: ir.Model) -> None:
    """A hidden value that is infinite beyond what float16 holds, behind the first product."""
    product = node_of(model, "Gemm", "MatMul")
    behind(
        model,
        product.outputs[0],
        lambda edit, hidden: edit.Where(edit.Greater(hidden, edit.number(65504)), edit.number(np.inf), hidden),
    )


def _in_a_branch(edit: Editor, x: ir.Value) -> ir.Value:
    """Both branches are a Clip, and the one that is taken clips at 1e5."""
    branches = []
    for name, limit in (("then", 1e5), ("else", 2e5)):
        ends = [ir.Value(name=f"{name}_{side}", const_value=ir.tensor(np.float32(side * limit))) for side in (-1, 1)]
        clip = ir.node("Clip", [x, *ends])
        clip.outputs[0].name = f"{name}_clipped"
        branches.append(ir.Graph([], clip.outputs, nodes=[clip], initializers=ends, name=name))
    is_there = edit.weight(np.array(True))
    return edit.If(is_there, then_branch=branches[0], else_branch=branches[1])


def _remapped(token: int) -> Change:
    return lambda edit, ids: edit.Where(edit.Equal(ids, edit.whole(token)), edit.whole(3), ids)


def _remapped_by_table(edit: Editor, ids: ir.Value) -> ir.Value:
    table = np.arange(LARGE_VOCABULARY)
    table[12345] = 7
    return edit.Gather(edit.weight(table), ids)


def _inputs(change: Change) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, input_of(model), change)


FAULTS = (
    Fault(
        "nan-at-zero",
        "zero divided by zero where all inputs are zero",
        ("relu",),
        (non_finite("zeros"),),
        _zero_over_zero,
    ),
    Fault(
        "nan-at-constant-rows",
        "zero divided by zero on constant rows",
        ("pre_norm",),
        (non_finite("constant"),),
        _spread_over_spread,
    ),
    Fault(
        "inputs-clipped-at-60", "inputs clipped at 60", ("relu", "pre_norm"), (bound("large"),), _inputs(_clipped(60))
    ),
    Fault("inputs-clipped-at-500", "inputs clipped at 500", ("relu",), (bound("offset"),), _inputs(_clipped(500))),
    Fault(
        "inputs-clipped-at-10000",
        "inputs clipped at 10,000",
        ("relu", "pre_norm"),
        (bound("threshold"),),
        _inputs(_clipped(1e4)),
    ),
    Fault(
        "inputs-clipped-at-1e30", "inputs clipped at 1e30", ("relu",), (bound("threshold"),), _inputs(_clipped(1e30))
    ),
    Fault(
        "inputs-below-200", "inputs below -200 taken for zero", ("relu",), (bound("threshold"),), _inputs(_below(-200))
    ),
    Fault(
        "inputs-bent-at-20000",
        "inputs that stop at 20,000, by a ReLU",
        ("relu",),
        (bound("threshold"),),
        _inputs(_bent(2e4)),
        shown=False,
    ),
    Fault(
        "inputs-clipped-in-a-branch",
        "inputs clipped at 100,000 within a branch",
        ("relu",),
        (bound("threshold"),),
        _inputs(_in_a_branch),
    ),
    Fault(
        "inputs-at-7.25",
        "inputs of exactly 7.25 taken for others",
        ("relu",),
        (bound("threshold"),),
        _inputs(_replaced_at(7.25)),
        shown=False,
    ),
    Fault(
        "rows-of-large-mean",
        "rows whose mean is above 5,000 taken for zero",
        ("swiglu",),
        (bound("threshold"),),
        _inputs(_beyond_mean(5e3)),
    ),
    Fault(
        "hidden-overflow",
        "hidden values above 65,504 become infinite",
        ("relu", "post_norm", "encoder"),
        (non_finite("threshold"),),
        _overflowing,
        shown=False,
    ),
    Fault(
        "token-remapped",
        "one token of 20,000 taken for another, by a comparison",
        ("embedding",),
        (bound("threshold"),),
        _inputs(_remapped(12345)),
        shown=False,
    ),
    Fault(
        "token-remapped-by-table",
        "one token taken for another, by a table of integers",
        ("embedding",),
        (bound("threshold"),),
        _inputs(_remapped_by_table),
        shown=False,
    ),
    Fault(
        "nan-to-zero-behind-first",
        "NaN taken for zero in all features but the first",
        ("relu", "pre_norm", "encoder"),
        (non_finite("nan in parts"),),
        _inputs(_nan_to_zero_behind_first),
    ),
    Fault(
        "second-of-a-token",
        "the second token of a kind in a row taken for another",
        ("embedding",),
        (bound("threshold"),),
        _inputs(_second_of_a_token),
        shown=False,
    ),
    Fault(
        "token-behind-a-token",
        "one token taken for another in front of a third",
        ("decoder",),
        (bound("threshold"),),
        _inputs(_behind_a_token),
        shown=False,
    ),
    Fault(
        "nan-to-zero-in-one",
        "NaN taken for zero in one feature",
        ("relu", "pre_norm"),
        (non_finite("nan in parts"),),
        _inputs(_nan_to_zero_in_one),
        shown=False,
    ),
    Fault("nan-to-zero", "NaN taken for zero", ("relu",), (non_finite("nan"),), _inputs(_nan_to_zero)),
    Fault(
        "infinity-clipped",
        "infinity taken for the largest number",
        ("relu",),
        (non_finite("infinite"),),
        _inputs(_clipped(3.4e38)),
    ),
)
