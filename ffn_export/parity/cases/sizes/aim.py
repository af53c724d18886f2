"""Find the sizes on both sides of everything that sizes decide in a graph.

The expressions of sizes are evaluated by arithmetic at all small sizes, at those around each constant in the
expressions, and at quotients of the constants. No graph is run. For each outcome of each condition, and for each
combination of outcomes, the cheapest sizes are taken, and the adjacent sizes at which an outcome changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from ffn_export.core.tensor_spec import Dim
from ffn_export.core.types import Array
from ffn_export.parity.cases.sizes.expressions import CHOICES, CONDITIONS, STEPS, Expression, evaluate, parts

_EVERY = 8_192  # sizes of one axis, with the others fixed
_SMALL = 40
_MOST_ASIDE = 160  # sizes of each axis in pairs of axes
_MOST_OUTCOMES = 16
_MOST_TOGETHER = 48
_FEW = (2, 3, 1)


class Aim:
    """The sizes that expressions are tried at, and their outcomes.

    Attributes:
        dims: The symbolic axes.
        sizes: Axis -> sizes, one for each trial.
    """

    def __init__(self, dims: Sequence[Dim], numbers: Sequence[Expression], shapes: Sequence[Expression]) -> None:
        self.dims = dims
        self._numbers = set(numbers)  # each of the few values of a number may decide something
        self._expressions = list(dict.fromkeys((*numbers, *shapes)))
        self._tried = _tried(tuple(dims), _constants(self._expressions))
        self._trials = self._tried.trials
        self.sizes: Mapping[str, Array] = {dim.name: self._trials[:, place] for place, dim in enumerate(dims)}

    def deciding(self) -> set[Expression]:
        """Return the expressions with an outcome that differs among sizes."""
        return {each for outcomes in self._outcomes() for each in outcomes}

    def wanted(self, work: Callable[[Mapping[str, Any]], Any]) -> list[dict[str, int]]:
        """Return the cheapest sizes for every outcome, then for combinations of outcomes, then next to each change.

        Args:
            work: As :meth:`.work.Work.of_sizes`: the work at sizes that are integers, or arrays of integers.
        """
        unbounded = {name: sizes.astype(object) for name, sizes in self.sizes.items()}  # products may exceed 64 bits
        order = np.argsort(np.array(work(unbounded).tolist()), kind="stable")
        alone: list[int] = []
        together: list[int] = []
        beside: list[int] = []
        for found in self._outcomes():
            codes = [outcome[order] for outcome in found.values()]
            for code in codes:
                firsts = np.unique(code, return_index=True)[1]
                alone += (order[first] for first in np.sort(firsts))
                beside += self._changes(order, firsts, code)
            if len(codes) > 1:
                joint = np.unique(np.stack(codes), axis=1, return_index=True)[1]
                together += (order[first] for first in np.sort(joint)[:_MOST_TOGETHER])
        return [self._at(trial) for trial in dict.fromkeys((*alone, *together, *beside))]

    def _at(self, trial: int) -> dict[str, int]:
        return {dim.name: int(size) for dim, size in zip(self.dims, self._trials[trial], strict=True)}

    def _changes(self, order: Array, firsts: Array, code: Array) -> Iterator[int]:
        """Yield the trials next to the cheapest trial of an outcome that have another outcome."""
        outcome = np.empty_like(code)
        outcome[order] = code
        for first in firsts:
            trial = self._trials[order[first]]
            for axis in range(len(self.dims)):
                for step in (-1, 1):
                    moved = trial.copy()
                    moved[axis] += step
                    place = self._tried.places.get(tuple(moved.tolist()))
                    if place is not None and outcome[place] != code[first]:
                        yield place

    def _outcomes(self) -> Iterator[dict[Expression, Array]]:
        """Yield the expressions whose outcomes differ, once for each substitute of an unknown number."""
        has_unknown = any(each.operator == "unknown" for each in parts(self._expressions))
        tokens = np.prod(self._trials, axis=1)
        for unknown in [*self.sizes.values(), tokens] if has_unknown else [tokens]:
            numbers = evaluate(self._expressions, self.sizes, unknown)
            found = {}
            for each, array in numbers.items():
                outcome = _outcome(each, array, numbers, is_root=each in self._numbers)
                if outcome is not None and outcome.ndim and outcome.min() != outcome.max():
                    found[each] = outcome
            yield found


class _Tried:
    """Sizes of all axes, and where each stands."""

    def __init__(self, trials: Array) -> None:
        self.trials = trials

    @cached_property
    def places(self) -> Mapping[tuple[int, ...], int]:
        return {tuple(trial): place for place, trial in enumerate(self.trials.tolist())}


@lru_cache(4)  # the same for each graph of one module, and twice for each graph
def _tried(dims: tuple[Dim, ...], constants: tuple[int, ...]) -> _Tried:
    trials = np.array(list(dict.fromkeys(_trials(dims, constants))), dtype=np.int64)
    trials.setflags(write=False)
    return _Tried(trials)


def _outcome(each: Expression, array: Array, numbers: Mapping[Expression, Array], *, is_root: bool) -> Array | None:
    """Return the outcome of an expression at each size, as small integers, or None if it decides nothing."""
    if each.operator in CONDITIONS:
        return array.astype(np.int64)
    if each.operator in CHOICES:
        first = numbers[each.operands[0]]
        other = numbers[each.operands[-1]] if len(each.operands) > 1 else np.asarray(0)
        return np.broadcast_to(np.sign(first - other), array.shape).astype(np.int64)
    is_step = each.operator in STEPS
    if is_step or (is_root and array.ndim and each.operator != "size"):
        distinct, codes = np.unique(array, return_inverse=True)
        if is_step or len(distinct) <= _MOST_OUTCOMES:
            return np.minimum(codes.reshape(array.shape), _MOST_OUTCOMES)
    return None


def _constants(expressions: Sequence[Expression]) -> tuple[int, ...]:
    numbers = (each.number for each in parts(expressions))
    found = {int(abs(n)) for n in numbers if n is not None and math.isfinite(n) and 1 < abs(n) < 2**31}
    return tuple(sorted(found)[:64])


def _trials(dims: Sequence[Dim], constants: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield sizes of all axes: every size of each axis alone, and sizes that may matter for each pair of axes."""
    few = [dim.clamp(_FEW[place % len(_FEW)]) for place, dim in enumerate(dims)]
    near = {c + step for c in constants for step in (-1, 0, 1)}
    shared = {c // k + step for c in constants for k in range(2, 17) for step in (0, 1)}
    for place, dim in enumerate(dims):
        first, end = max(dim.minimum, 1), _EVERY if dim.maximum is None else min(dim.maximum, 4 * _EVERY)
        every = {*range(first, end + 1), *(n for n in near if dim.clamp(n) == n and n > 0)}
        for others in (few, [d.clamp(1) for d in dims]):
            for size in sorted(every):
                yield (*others[:place], size, *others[place + 1 :])
    powers = {2**n + step for n in range(6, 13) for step in (0, 1)}
    wanted = sorted({*range(1, _SMALL), *near, *shared, *powers})
    aside = [[n for n in wanted if n > 0 and dim.clamp(n) == n][:_MOST_ASIDE] for dim in dims]
    for one, other in combinations(range(len(dims)), 2):
        for size in aside[one]:
            for beside in aside[other]:
                sizes = list(few)
                sizes[one], sizes[other] = size, beside
                yield tuple(sizes)
