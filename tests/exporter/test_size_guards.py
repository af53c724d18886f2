"""The conditions on sizes by themselves; test_refusals.py has the modules that they come from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ffn_export.core.tensor_spec import Dim
from ffn_export.exporter.size_guards import Guard, _bounds, _close, _is_free, _violations

TRACED = {"n": 3, "m": 5}


def about_n(condition: Callable[[int], bool], text: str = "") -> Guard:
    return Guard(text, ("n",), lambda sizes: condition(sizes["n"]))


@pytest.mark.parametrize(
    ("condition", "dim", "bounds"),
    [
        (lambda n: n <= 16, Dim("n"), Dim("n", 0, 16)),
        (lambda n: n > 2, Dim("n"), Dim("n", 3, None)),
        (lambda n: 2 <= n < 1000, Dim("n"), Dim("n", 2, 999)),
        (lambda n: n <= 16, Dim("n", 1, 64), Dim("n", 1, 16)),
        (lambda n: n > 2, Dim("n", 0, 64), Dim("n", 3, 64)),
        (lambda n: n <= 2**20, Dim("n"), Dim("n", 0, 2**20)),
        # Kept by all sizes that were asked for, or no matter of bounds.
        (lambda n: n <= 64, Dim("n", 0, 64), None),
        (lambda n: n % 2 == 1, Dim("n"), None),
        (lambda n: n != 1, Dim("n"), None),
        (lambda n: n != 5, Dim("n"), None),
    ],
)
def test_bounds(condition: Callable[[int], bool], dim: Dim, bounds: Dim | None) -> None:
    assert _bounds(about_n(condition), {"n": dim}, TRACED) == bounds


def test_the_smallest_sizes_that_break_a_guard() -> None:
    dims = {"n": Dim("n"), "m": Dim("m", 1)}
    assert _violations(about_n(lambda n: n % 2 == 1), dims, TRACED) == [{"n": 2, "m": 5}, {"n": 0, "m": 5}]
    assert _violations(about_n(lambda n: n != 300, "n != 300"), dims, TRACED) == [{"n": 300, "m": 5}]
    both = Guard("n > m", ("n", "m"), lambda sizes: sizes["n"] > sizes["m"])
    assert _violations(both, dims, TRACED) == [{"n": 2, "m": 2}, {"n": 1, "m": 1}, {"n": 0, "m": 1}]
    assert _violations(about_n(lambda n: True), dims, TRACED) == []


@pytest.mark.parametrize(
    ("condition", "dim", "is_free"),
    [
        (lambda n: n == 3, Dim("n"), False),
        (lambda n: n % 3 == 0, Dim("n"), True),
        (lambda n: n >= 3, Dim("n", 0, 4), True),
        (lambda n: n >= 3, Dim("n", 0, 3), False),
    ],
)
def test_an_axis_with_one_size_only(condition: Callable[[int], bool], dim: Dim, is_free: bool) -> None:
    assert _is_free(dim, [about_n(condition)], TRACED) is is_free


def test_agreement_is_about_what_the_module_says() -> None:
    x = torch.tensor([1.0, float("inf"), float("nan")])
    assert _close(x, torch.tensor([1.0 + 1e-6, float("inf"), 7.0]))
    assert not _close(x, torch.tensor([1.001, float("inf"), 7.0]))
    assert not _close(x, torch.tensor([1.0, 5.0, 7.0]))
    assert not _close(x, torch.tensor([float("nan"), float("inf"), 7.0]))
    assert not _close(x, x[:2])
    assert not _close(x, x.double())
    assert not _close(torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert not _close(torch.tensor([True]), torch.tensor([False]))
