"""How far rounding the inputs and parameters alone moves the truth: what no runtime can be blamed for.

A verifier sees a whole module and not its norms, so it asks the oracle. Each floating-point input and
parameter is moved by one rounding of its own dtype, elementwise and in a random direction, which is the
smallest backward error that arithmetic in that dtype can promise (Higham 2002, "Accuracy and Stability of
Numerical Algorithms", section 1.5); the largest change of the float64 outputs over a few draws is the
forward error that comes of it, whatever the row, the epsilon or the layers between.

It is a lower estimate of the worst case, since random directions cancel in sums, and so errs on the
side of a stricter bound.

Where all inputs are next to nothing, scores are equal, and which experts of a mixture come first is for each kernel to
say. So the inputs are moved by a little more there, twice: where a step that is a thousand times smaller changes as
much, a tie was broken, and that much is allowed; the change of a function without a jump shrinks with the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ffn_export.core.drawing import float_info, is_floating
from ffn_export.core.types import Array

_DRAWS = 4
# Inputs below it are next to nothing; float64 tells scores apart that steps of these sizes make.
_NOTHING = 1e-30
_STEPS = (1e-10, 1e-13)


class Oracle(Protocol):
    """What can be asked for the truth: a whole reference, or a part of one."""

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array] | None:
        """Return output name -> array for inputs in float64; None where there is no oracle to ask."""
        ...


def movement(reference: Oracle, feeds: Mapping[str, Array], truth: Mapping[str, Array], seed: int) -> dict[str, float]:
    """Return output name -> largest absolute change of the oracle under one rounding of inputs and parameters.

    Empty where the reference has no oracle to ask. Elements that are not finite count as unmoved: they are
    judged for what they are.
    """
    rng = np.random.default_rng(seed)
    moved = dict.fromkeys(truth, 0.0)
    for draw in range(_DRAWS):
        outputs = reference.oracle({name: _rounded(array, rng) for name, array in feeds.items()}, seed + draw)
        if outputs is None:
            return {}
        for name, before in truth.items():
            if before.dtype.kind == "f":
                moved[name] = max(moved[name], _largest_change(before, outputs[name]))
        for name, change in _by_ties(reference, feeds, truth, rng).items():
            moved[name] = max(moved[name], change)
    return moved


def without_order(feeds: Mapping[str, Array], truth: Mapping[str, Array]) -> dict[str, float]:
    """Return output name -> elements, of integers where an input is not finite: of two NaNs, any may be first."""
    floating = (array.astype(np.float64) for array in feeds.values() if is_floating(array))
    if all(np.isfinite(array).all() for array in floating):
        return {}
    return {name: float(array.size) for name, array in truth.items() if array.dtype.kind in "iu"}


def _by_ties(
    reference: Oracle, feeds: Mapping[str, Array], truth: Mapping[str, Array], rng: np.random.Generator
) -> dict[str, float]:
    """Return output name -> how far it jumps when ties of next to nothing are broken; of integers, how many change."""
    floating = {name: array.astype(np.float64) for name, array in feeds.items() if is_floating(array)}
    if not floating or max(float(np.abs(array).max(initial=0.0)) for array in floating.values()) > _NOTHING:
        return {}
    direction = {name: rng.standard_normal(array.shape) for name, array in floating.items()}
    changes: list[dict[str, float]] = []
    for step in _STEPS:
        moved = {name: array + step * direction[name] for name, array in floating.items()}
        outputs = reference.oracle({**feeds, **moved}) or {}
        changes.append({name: _change(truth[name], after) for name, after in outputs.items()})
    large, small = changes
    return {name: change for name, change in small.items() if name in truth and change > large.get(name, 0.0) / 2}


def _change(before: Array, after: Array) -> float:
    if before.dtype.kind == "f":
        return _largest_change(before, after)
    return float(np.count_nonzero(before != after))


def _rounded(array: Array, rng: np.random.Generator) -> Array:
    """Return a floating-point array in float64, each element half a unit in its last place up or down."""
    if not is_floating(array):
        return array
    info = float_info(array.dtype)
    exact = array.astype(np.float64)
    half_unit = np.maximum(np.abs(exact) * float(info.eps), float(info.smallest_subnormal)) / 2
    rounded: Array = exact + rng.choice([-1.0, 1.0], exact.shape) * half_unit
    return rounded


def _largest_change(before: Array, after: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.abs(after - before)
    return float(change[np.isfinite(change)].max(initial=0.0))
