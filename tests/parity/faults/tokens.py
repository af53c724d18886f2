"""Results that depend on what they must not: other tokens, the batch, the order, the day."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Editor, behind, input_of, output_of
from tests.parity.faults.fault import Fault, bound, kept, non_finite


def _leak(axis: int, factor: float) -> Callable[[ir.Model], None]:
    """Add a part of the mean over an axis of the input."""

    def plant(model: ir.Model) -> None:
        x = input_of(model)

        def leaking(edit: Editor, y: ir.Value) -> ir.Value:
            return edit.Add(y, edit.Mul(edit.ReduceMean(x, edit.whole(axis)), edit.number(factor)))

        behind(model, output_of(model), leaking)

    return plant


def _order(model: ir.Model) -> None:
    """Add a thousandth of each token's position."""
    x = input_of(model)

    def numbered(edit: Editor, y: ir.Value) -> ir.Value:
        zero, one = (edit.weight(np.array(number)) for number in (0, 1))
        position = edit.Cast(edit.Range(zero, edit.Squeeze(edit.size(x, 1)), one), to=ir.DataType.FLOAT)
        return edit.Add(y, edit.Mul(edit.Unsqueeze(position, edit.whole(1)), edit.number(1e-3)))

    behind(model, output_of(model), numbered)


def _reversed(model: ir.Model) -> None:
    def backwards(edit: Editor, y: ir.Value) -> ir.Value:
        return edit.Slice(y, edit.whole(-1), edit.whole(-(2**31)), edit.whole(1), edit.whole(-1))

    behind(model, output_of(model), backwards)


def _features_permuted(model: ir.Model) -> None:
    order = np.random.default_rng(0).permutation(32)
    behind(model, output_of(model), lambda edit, y: edit.Gather(y, edit.weight(order), axis=-1))


def _noise(scale: float) -> Callable[[ir.Model], None]:
    """Add noise that is drawn anew in each run."""

    def noisy(edit: Editor, y: ir.Value) -> ir.Value:
        return edit.Add(y, edit.RandomNormalLike(y, scale=scale))

    return lambda model: behind(model, output_of(model), noisy)


FAULTS = (
    Fault(
        "leak-between-tokens",
        "a thousandth of the mean over the tokens added",
        ("relu", "pre_norm"),
        (bound("normal"),),
        _leak(1, 1e-3),
    ),
    Fault(
        "leak-between-tokens-tiny",
        "1e-9 of the mean over the tokens added",
        ("relu",),
        (non_finite("nan"),),
        _leak(1, 1e-9),
    ),
    Fault(
        "leak-between-batches",
        "a thousandth of the mean over the batch added",
        ("relu",),
        (bound("normal"),),
        _leak(0, 1e-3),
    ),
    Fault(
        "leak-between-batches-tiny",
        "1e-9 of the mean over the batch added",
        ("relu",),
        (non_finite("nan"),),
        _leak(0, 1e-9),
    ),
    Fault("order-of-tokens", "a thousandth of a token's position added", ("relu",), (bound("normal"),), _order),
    Fault("tokens-reversed", "tokens in reverse order", ("swiglu",), (bound("normal"),), _reversed),
    Fault("features-permuted", "features of the output permuted", ("relu",), (bound("normal"),), _features_permuted),
    Fault("noise", "noise of a thousandth", ("relu",), (bound("normal"),), _noise(1e-3)),
    Fault("noise-tiny", "noise of 1e-8: below the bound, another in each run", ("relu",), (kept(),), _noise(1e-8)),
)
