"""Tolerances: the bounds of errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real

from ffn_export.core.checked_numbers import is_positive, written
from ffn_export.core.plain_data import PlainData
from ffn_export.errors import UsageError, did_you_mean

# Kind of values of a case with the user's arrays.
GIVEN = "given"
# Share of an output of integers, such as the largest logit of each row, that may differ, over the budget: noise within
# the budget changes the largest of 1,000 normal logits in twice that share of the rows, and more where they are closer.
_FLIPPED = 10
_MOST_FLIPPED = 0.5


@dataclass(frozen=True)
class Closeness:
    """The classic test of one output: ``difference <= atol + rtol * |oracle|`` for every element.

    Raises:
        UsageError: If a number is negative, or not finite: no error would exceed it.
    """

    atol: float = 0.0
    rtol: float = 0.0

    def __post_init__(self) -> None:
        for name, number in (("atol", self.atol), ("rtol", self.rtol)):
            _check_bound(name, number)

    def factor(self, frontier: tuple[tuple[float, float], ...]) -> float:
        """Return the largest difference as a multiple of its element's bound; 0 without elements."""
        return max((ratio(error, self.atol + self.rtol * size) for error, size in frontier), default=0.0)


@dataclass(frozen=True)
class Tolerances(PlainData):
    """Bounds of a runtime's error, in ULP at the output's scale.

    The bound is the largest of three terms:

    1. A multiple of PyTorch's own error. A runtime adds in another order than PyTorch, so its error may be several
       times larger or smaller.
    2. A floor, below which a difference means nothing. It is lower than the error of every fault worth finding: on
       ``bert-ffn`` the wrong kind of GELU is off by 367 ULP and one weight wrong by 1 % by 13 ULP, while PyTorch's own
       float32 error is 1.3 ULP (``docs/parity.md``).
    3. On ill-conditioned rows, and in outputs of few numbers, a multiple of the conditioning: the change of the oracle
       under one rounding of the inputs. PyTorch may be exact there by luck: the mean of a constant row is right or one
       ULP wrong, and the norm multiplies that ULP by 1 / sqrt(epsilon).

    A declaration replaces these bounds: a budget for a model that is meant to differ (quantised), or the classic
    ``atol`` and ``rtol``.

    Attributes:
        baseline_factor: Multiple of PyTorch's own error in the same dtype.
        floor_ulps: Error that is always allowed.
        conditioning_factor: Multiple of the conditioning. A sum and its mean are rounded once each.
        imprecise_factor: Multiple of the bound for an imprecise operator, which rounds one of several sums less
            accurately. The largest measured is 1.16 (``scripts/false_alarms.py``, ``transformer-big`` for ``ort``).
        explained_factor: Multiple of the conditioning for an imprecise operator. Adding n elements in order is off by
            about sqrt(n) roundings (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis"),
            and rows have up to 4,096 elements.
        in_order_factor: Multiple of the bound for a runtime that adds the products of a row in order. A vector unit
            with 16 lanes adds 16 parts of a row, and its rounding error is sqrt(16) times smaller.
        relative_l2: Declared budget: largest relative L2 error of any output and of any traced initializer.
        drawn_l2: Budget on drawn inputs, if ``relative_l2`` is that on the user's samples; None if it is for both.
        budget_of: The runtime that the budgets are for, since it computes in lower precision than the graph; others are
            judged by the bound, and the weights must be exact. None if they are for all.
        closeness: Output name -> classic test; the name ``*`` stands for every other output.

    Raises:
        UsageError: If a number is negative or not finite: no error would exceed it.

    Examples:
        >>> fx.Tolerances(relative_l2=0.02).declared_words()
        'a relative L2 error of 0.02'
    """

    baseline_factor: float = 4.0
    floor_ulps: float = 8.0
    conditioning_factor: float = 2.0
    imprecise_factor: float = 2.0
    explained_factor: float = 64.0
    in_order_factor: float = 4.0
    relative_l2: float | None = None
    drawn_l2: float | None = None
    budget_of: str | None = None
    closeness: Mapping[str, Closeness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name.endswith(("_factor", "_ulps")):
                _check_bound(each.name, getattr(self, each.name))
        for name in ("relative_l2", "drawn_l2"):
            if getattr(self, name) is not None:
                _check_bound(name, getattr(self, name))
        if not isinstance(self.closeness, Mapping) or not all(
            isinstance(c, Closeness) for c in self.closeness.values()
        ):
            raise UsageError("closeness is a mapping of output names to Closeness(atol, rtol)")

    def closeness_of(self, output: str) -> Closeness | None:
        """Return the classic test declared for an output, or None."""
        return self.closeness.get(output, self.closeness.get("*"))

    def declares(self, output: str) -> bool:
        """Whether a declaration replaces the bound in ULP."""
        return self.relative_l2 is not None or self.closeness_of(output) is not None

    def declared_words(self) -> str:
        """Return the declarations in a few words; empty if nothing is declared."""
        words = [f"{output} atol {test.atol:g}, rtol {test.rtol:g}" for output, test in self.closeness.items()]
        if self.relative_l2 is not None:
            words.append(f"a relative L2 error of {self.budget_words()}")
        return "; ".join(words)

    def budget_words(self) -> str:
        """Return the budget, that on drawn inputs if it is another, and the runtime that it is for."""
        drawn = f" ({self.drawn_l2:g} on drawn inputs)" if self.drawn_l2 is not None else ""
        return f"{self.relative_l2:g}{drawn}" + (f" on {self.budget_of}" if self.budget_of is not None else "")

    def for_case(self, runtime: str, values: str) -> Tolerances:
        """Return the tolerances for a runtime on a case with this kind of values."""
        own = self.for_runtime(runtime)
        if own.drawn_l2 is None or values == GIVEN:
            return own
        return replace(own, relative_l2=own.drawn_l2, drawn_l2=None)

    def for_runtime(self, runtime: str | None) -> Tolerances:
        """Return the tolerances for a runtime; None is for what does not depend on one, such as the weights."""
        if self.budget_of in (None, runtime):
            return self
        return replace(self, relative_l2=None, drawn_l2=None, budget_of=None)

    def allows_zeros(self, output: str, scale: float) -> bool:
        """Whether the declared tolerance of an output is so large that zeros would pass.

        Args:
            output: Name of the output.
            scale: Largest magnitude of the output. The relative L2 error of zeros is 1 at any scale.
        """
        test = self.closeness_of(output)
        if test is not None:
            return test.rtol >= 1 or test.atol >= (1 - test.rtol) * scale
        return self.relative_l2 is not None and self.relative_l2 >= 1

    def declared(self) -> Tolerances:
        """Return the same declarations with the default bounds of this release."""
        return Tolerances(
            relative_l2=self.relative_l2, drawn_l2=self.drawn_l2, budget_of=self.budget_of, closeness=self.closeness
        )


def check_budget(budget: float) -> None:
    """Check that a budget is a finite number above 0.

    Raises:
        UsageError: If it is not.
    """
    if not is_positive(budget):
        raise UsageError(f"an error budget of {written(budget)} is none: take a finite number above 0")


def check_declared(tolerances: Tolerances, outputs: Sequence[str]) -> None:
    """Check that each output with tolerances of its own exists.

    Raises:
        UsageError: If a tolerance names another.
    """
    for name in tolerances.closeness.keys() - {"*", *outputs}:
        raise UsageError(f"no output is called {name!r};{did_you_mean(name, outputs)} they are {', '.join(outputs)}")


def may_differ(elements: int, budget: float) -> int:
    """Return how many elements of an output of integers may differ under a budget, rounded up: one at least."""
    return max(1, math.ceil(min(_FLIPPED * budget, _MOST_FLIPPED) * elements))


def budget_of(differing: int, elements: int) -> float:
    """Return a budget under which so many elements of an output of integers may differ; infinite if there is none."""
    if differing > may_differ(elements, math.inf):
        return math.inf
    return differing / (_FLIPPED * elements) if differing > may_differ(elements, 0.0) else 0.0


def allowed_ulps(
    baseline_ulps: float, tolerances: Tolerances, conditioning_ulps: float = 0.0, inner_units: float = 1.0
) -> float:
    """Return the bound of an error if PyTorch's own error is ``baseline_ulps``; NaN counts as 0.

    The floor is in ULP of the dtype that the output is computed in, one of which is ``inner_units`` ULP of the
    output's dtype.
    """
    return max(
        tolerances.floor_ulps * inner_units,
        _known(tolerances.baseline_factor * baseline_ulps),
        _known(tolerances.conditioning_factor * conditioning_ulps),
    )


def explained_ulps(conditioning_ulps: float, tolerances: Tolerances) -> float:
    """Return the largest error that conditioning explains for an imprecise operator."""
    return _known(tolerances.explained_factor * conditioning_ulps)


def _check_bound(name: str, number: float) -> None:
    """Refuse a number that no error exceeds, or that none is within."""
    if not isinstance(number, Real) or not 0 <= number < math.inf:
        raise UsageError(f"{name} of {written(number)} bounds nothing: take a finite number that is not negative")


def _known(ulps: float) -> float:
    return ulps if math.isfinite(ulps) else 0.0


def ratio(error: float, allowed: float) -> float:
    """Return an error as a multiple of what is allowed; infinite if nothing is."""
    if allowed:
        return error / allowed
    return math.inf if error else 0.0
