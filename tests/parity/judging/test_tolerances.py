"""Bounds, declared tolerances, and their words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ffn_export.errors import UsageError
from ffn_export.parity.judging.tolerances import (
    GIVEN,
    Closeness,
    Tolerances,
    allowed_ulps,
    check_budget,
    explained_ulps,
)

LOW = Tolerances(floor_ulps=0.5, conditioning_factor=3.0)


@pytest.mark.parametrize(
    ("own", "conditioning", "inner", "allowed"),
    [
        (0.0, 0.0, 1.0, 0.5),
        (0.0, 0.0, 8192.0, 4096.0),
        (2.0, 0.0, 1.0, 8.0),
        (2.0, 5.0, 1.0, 15.0),
        (math.nan, math.inf, 1.0, 0.5),
    ],
)
def test_the_bound_is_the_largest_of_three(own: float, conditioning: float, inner: float, allowed: float) -> None:
    assert allowed_ulps(own, LOW, conditioning, inner) == allowed


def test_without_conditioning_the_floor_is_left() -> None:
    assert allowed_ulps(0.0, LOW) == 0.5
    assert allowed_ulps(0.0, Tolerances(), 8.0) == 16.0
    assert explained_ulps(math.nan, LOW) == 0.0
    assert explained_ulps(2.0, Tolerances()) == 128.0


def test_closeness_is_judged_element_by_element() -> None:
    assert Closeness(atol=1.0, rtol=0.5).factor(((3.0, 4.0), (6.0, 8.0))) == 1.2
    assert Closeness().factor(((0.0, 4.0),)) == 0.0
    assert Closeness().factor(((1.0, 4.0),)) == math.inf
    assert Closeness().factor(()) == 0.0


@pytest.mark.parametrize("budget", [0.0, -1.0, math.inf, math.nan])
def test_a_budget_is_a_finite_number_above_0(budget: float) -> None:
    check_budget(1e-9)
    check_budget(2.0)
    with pytest.raises(UsageError, match="take a finite number above 0"):
        check_budget(budget)


def test_a_budget_is_of_a_runtime_and_of_kinds_of_values() -> None:
    declared = Tolerances(relative_l2=0.01, drawn_l2=0.1, budget_of="ort-cpu")
    assert declared.for_case("ort-cpu", GIVEN).relative_l2 == 0.01
    assert declared.for_case("ort-cpu", "normal").relative_l2 == 0.1
    assert declared.for_case("reference", "normal") == Tolerances()
    for_all = Tolerances(relative_l2=0.01)
    assert for_all.for_case("ort-cpu", "normal") is for_all


@pytest.mark.parametrize(
    ("tolerances", "words"),
    [
        (Tolerances(), ""),
        (Tolerances(relative_l2=0.01), "a relative L2 error of 0.01"),
        (
            Tolerances(relative_l2=0.01, drawn_l2=0.1, budget_of="ort-cpu"),
            "a relative L2 error of 0.01 (0.1 on drawn inputs) on ort-cpu",
        ),
        (
            Tolerances(closeness={"y": Closeness(1e-3), "*": Closeness(rtol=1)}),
            "y atol 0.001, rtol 0; * atol 0, rtol 1",
        ),
    ],
)
def test_declarations_in_words(tolerances: Tolerances, words: str) -> None:
    assert tolerances.declared_words() == words
    assert tolerances.declares("y") == bool(words)


@pytest.mark.parametrize(
    ("tolerances", "allows"),
    [
        (Tolerances(), False),
        (Tolerances(relative_l2=0.99), False),
        (Tolerances(relative_l2=1.0), True),
        (Tolerances(closeness={"*": Closeness(rtol=1.0)}), True),
        (Tolerances(closeness={"*": Closeness(atol=2.0, rtol=0.5)}), True),
        (Tolerances(closeness={"*": Closeness(atol=1.9, rtol=0.5)}), False),
        (Tolerances(closeness={"z": Closeness(atol=9.0)}), False),
    ],
)
def test_zeros_pass_at_the_size_of_the_output(tolerances: Tolerances, allows: bool) -> None:
    assert tolerances.allows_zeros("y", 4.0) == allows


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1.0, "1"])
def test_a_bound_that_no_error_exceeds_is_refused(number: Any) -> None:
    for name in ("relative_l2", "drawn_l2", "floor_ulps", "baseline_factor", "explained_factor"):
        with pytest.raises(UsageError, match="take a finite number"):
            Tolerances(**{name: number})
    for name in ("atol", "rtol"):
        with pytest.raises(UsageError, match=f"{name} of .* bounds nothing"):
            Closeness(**{name: number})


def test_closeness_is_by_output() -> None:
    for given in (1e-3, {"y": 1e-3}):
        with pytest.raises(UsageError, match="mapping of output names"):
            Tolerances(closeness=given)  # type: ignore[arg-type]
