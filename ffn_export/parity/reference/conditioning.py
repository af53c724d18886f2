"""Measure the conditioning: how far one rounding of inputs and parameters moves the oracle.

A verifier sees a whole module, not its norms, so it measures on the oracle. Each element of the floating-point inputs
and parameters is moved by one rounding of its dtype in a random direction. This is the smallest backward error that
arithmetic in that dtype can guarantee (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 1.5). The
largest change of the float64 outputs over a few draws is the resulting forward error.

Random directions cancel in sums, so the result underestimates the worst case and the bound is stricter. Where few
elements move far, as behind the softmax of large scores, few draws may miss them. An error that exceeds what four draws
allow is therefore compared with the largest of 32.

If all inputs are near zero, the scores of a mixture of experts are tied, and each kernel may order the experts
differently. The inputs are then also moved by two larger steps. If a step 1,000 times smaller changes an output as
much, it broke a tie, and that change is allowed. The change of a function without a jump shrinks with the step.

An output of few numbers, such as one score of a pair of texts, is small where its terms happen to cancel. Its largest
number then says nothing of its terms, so it is measured on every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ffn_export.core.drawing import float_info, is_floating
from ffn_export.core.fills import fills
from ffn_export.core.types import Array
from ffn_export.parity.reference.references import Reference

DRAWS, MORE_DRAWS = 4, 32
# Of so many numbers, one is as large as their terms: of normal ones, all are below a quarter of the deviation once in
# 400,000 draws. A single number is in every fifth.
_FEW = 8
# Inputs of at most this magnitude count as zero.
_NOTHING = 1e-30
# Steps that break ties. Float64 resolves the scores that they change.
_STEPS = (1e-10, 1e-13)


class Oracle(Protocol):
    """Source of float64 outputs: a whole reference, or a part of one."""

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array] | None:
        """Return output name -> array in float64, or None without an oracle."""
        ...


def allowed(
    reference: Reference,
    feeds: Mapping[str, Array],
    expected: Mapping[str, tuple[Array, Array]],
    seed: int,
    *,
    ill_conditioned: bool,
    draws: int = DRAWS,
) -> dict[str, float]:
    """Return output name -> change of the oracle by roundings, or by a runtime's arithmetic.

    Roundings count on ill-conditioned rows, and in outputs of few numbers.
    Elements of which the baseline is not finite do not count: the oracle may hold what is beyond the dtype, and moves
    by more there than any other element is large. Fills do not count either: one rounding moves them by more than the
    rest is large. What is expected of an output is its oracle and its baseline.
    """
    truth = {name: comparable(oracle, baseline) for name, (oracle, baseline) in expected.items()}
    moved = movement(reference, feeds, measured(truth, ill_conditioned=ill_conditioned), seed, draws)
    return _larger(moved, _of_arithmetic(reference.as_runtime(feeds), truth))


def measured(truth: Mapping[str, Array], *, ill_conditioned: bool) -> Mapping[str, Array]:
    """Return the outputs whose change by roundings is allowed: all on ill-conditioned rows, else the small ones."""
    if ill_conditioned:
        return truth
    return {name: array for name, array in truth.items() if array.dtype.kind == "f" and 0 < array.size < _FEW}


def comparable(truth: Array, baseline: Array) -> Array:
    """Return an output with NaN for elements whose change is not measured: those beyond the dtype, and fills."""
    if truth.dtype.kind != "f" or truth.shape != baseline.shape:
        return truth
    held: Array = np.where(np.isfinite(baseline.astype(np.float64)), truth, np.nan)
    filled = fills(truth)
    return held if filled is None else np.where(filled, np.nan, held)


def movement(
    reference: Oracle, feeds: Mapping[str, Array], truth: Mapping[str, Array], seed: int, draws: int = DRAWS
) -> dict[str, float]:
    """Return output name -> largest absolute change of the oracle under one rounding of inputs and parameters.

    The result is empty without an oracle or outputs. Elements that are not finite count as unmoved, as they are judged
    separately.
    """
    rng = np.random.default_rng(seed)
    moved = dict.fromkeys(truth, 0.0)
    for draw in range(draws if truth else 0):
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
    """Return integer output -> number of elements if an input is not finite, since the order of NaNs is undefined."""
    floating = (array.astype(np.float64) for array in feeds.values() if is_floating(array))
    if all(np.isfinite(array).all() for array in floating):
        return {}
    return {name: float(array.size) for name, array in truth.items() if array.dtype.kind in "iu"}


def _of_arithmetic(baseline: Mapping[str, Array] | None, truth: Mapping[str, Array]) -> dict[str, float]:
    """Return output name -> largest error of the baseline in a runtime's arithmetic; empty without that baseline."""
    return {
        name: _largest_change(truth[name], array.astype(np.float64))
        for name, array in (baseline or {}).items()
        if is_floating(array) and array.shape == truth[name].shape
    }


def _larger(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the larger change of each output."""
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in (*one, *other)}


def _by_ties(
    reference: Oracle, feeds: Mapping[str, Array], truth: Mapping[str, Array], rng: np.random.Generator
) -> dict[str, float]:
    """Return output name -> change when ties of inputs near zero are broken; for integers, the number of changes."""
    floating = {name: array.astype(np.float64) for name, array in feeds.items() if is_floating(array)}
    if not floating or max(float(np.abs(array).max(initial=0.0)) for array in floating.values()) > _NOTHING:
        return {}
    direction = {name: rng.standard_normal(array.shape) for name, array in floating.items()}
    changes: list[dict[str, float]] = []
    for step in _STEPS:
        moved = {name: array + step * direction[name] for name, array in floating.items()}
        outputs = reference.oracle({**feeds, **moved}) or {}
        changes.append({name: _change(truth[name], after) for name, after in outputs.items() if name in truth})
    large, small = changes
    return {name: change for name, change in small.items() if change > large.get(name, 0.0) / 2}


def _change(before: Array, after: Array) -> float:
    if before.dtype.kind == "f":
        return _largest_change(before, after)
    return float(np.count_nonzero(before != after))


def _rounded(array: Array, rng: np.random.Generator) -> Array:
    """Return a floating-point array in float64, with each finite element moved up or down by half of its ULP."""
    if not is_floating(array):
        return array
    info = float_info(array.dtype)
    exact = array.astype(np.float64)
    half_unit = np.maximum(np.abs(exact) * float(info.eps), float(info.smallest_subnormal)) / 2
    step = np.where(np.isfinite(exact), half_unit, 0.0)
    rounded: Array = exact + rng.choice([-1.0, 1.0], exact.shape) * step
    return rounded


def _largest_change(before: Array, after: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.abs(after - before)
    return float(change[np.isfinite(change)].max(initial=0.0))
