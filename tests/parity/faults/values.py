"""Graphs that are right for some values only."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from tests.parity.faults.edit import Change, Editor, behind, input_of, output_of
from tests.parity.faults.fault import Fault, bound, non_finite


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


def _inputs(change: Change) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, input_of(model), change)


FAULTS = (
    Fault("nan-at-zero", "zero divided by zero where all inputs are zero", ("relu",), (non_finite("zeros"),), _zero_over_zero),
    Fault("nan-at-constant-rows", "zero divided by zero on constant rows", ("pre_norm",), (non_finite("constant"),), _spread_over_spread),
    Fault("inputs-clipped-at-60", "inputs clipped at 60", ("relu", "pre_norm"), (bound("large"),), _inputs(_clipped(60))),
    Fault("inputs-clipped-at-500", "inputs clipped at 500", ("relu",), (bound("offset"),), _inputs(_clipped(500))),
    Fault("nan-to-zero", "NaN taken for zero", ("relu",), (non_finite("nan"),), _inputs(_nan_to_zero)),
    Fault("infinity-clipped", "infinity taken for the largest number", ("relu",), (non_finite("infinite"),), _inputs(_clipped(3.4e38))),
)  # fmt: skip
