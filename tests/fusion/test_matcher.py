"""A pattern is found in any order of commutative operands, and in few tries where it is not there."""

from __future__ import annotations

from itertools import product
from typing import Any

import onnx_ir as ir
import pytest
from onnxscript.rewriter import MatchResult, RewriteRule

from ffn_export.fusion.matcher import AnyOrderMatcher
from tests.fusion.graphs import Writer, body, model


def rule(pattern: Any) -> RewriteRule:
    return RewriteRule(pattern, lambda op, **_: op.Identity(op), matcher=AnyOrderMatcher)


def match(pattern: Any, of: ir.Model) -> MatchResult | None:
    return rule(pattern).match(of, of.graph, of.graph[-1], check_nodes_are_removable=False)


def ambiguous(op: Any, x: Any, a: Any, b: Any) -> Any:
    """x is known last: both orders of the first products fit until the very end."""
    return op.Add(op.Mul(op.Mul(x, a), op.Mul(x, b)), op.Exp(x))


@pytest.mark.parametrize("order", range(16))
def test_goes_back_over_choices_that_fitted(order: int) -> None:
    op = Writer(order)
    op("Add", op("Mul", op("Mul", "x", "c"), op("Mul", "x", "d")), op("Exp", "x"), to="y")
    of = model(body(op), "float c = {2}, float d = {3}")
    found = match(ambiguous, of)
    assert found
    assert {found.bindings["a"].name, found.bindings["b"].name} == {"c", "d"}
    assert found.bindings["x"].name == "x"
    assert len(found.nodes) == 5


def test_no_match_in_any_order() -> None:
    of = model("m = Mul(x, c) n = Mul(x, d) p = Mul(m, n) e = Exp(z) y = Add(p, e)",
               "float c = {2}, float d = {3}", inputs="float[2,8] x, float[2,8] z")  # fmt: skip
    assert not match(ambiguous, of)


def test_patterns_stay_as_they_are_written() -> None:
    of = model("e = Exp(x) y = Mul(e, c)", "float c = {2}")

    def pattern(op: Any, x: Any, a: Any) -> Any:
        return op.Mul(a, op.Exp(x))

    written = rule(pattern)
    before = str(written._target_pattern)
    assert written.match(of, of.graph, of.graph[-1], check_nodes_are_removable=False)
    assert str(written._target_pattern) == before


def test_operands_of_other_operators_stay_in_order() -> None:
    def pattern(op: Any, x: Any, a: Any) -> Any:
        return op.Sub(a, op.Exp(x))

    assert not match(pattern, model("e = Exp(x) y = Sub(e, c)", "float c = {2}"))
    assert match(pattern, model("e = Exp(x) y = Sub(c, e)", "float c = {2}"))


def test_the_written_order_comes_first() -> None:
    def pattern(op: Any, a: Any, b: Any) -> Any:
        return op.Mul(a, b)

    found = match(pattern, model("y = Mul(x, c)", "float c = {2}"))
    assert found
    assert [found.bindings[name].name for name in "ab"] == ["x", "c"]


def test_as_complete_as_every_commuted_pattern() -> None:
    def pattern(op: Any, x: Any, a: Any, b: Any) -> Any:
        return op.Mul(op.Add(x, a), op.Add(op.Mul(x, b), op.Neg(x)))

    commuted = RewriteRule(pattern, lambda op, **_: op).commute()
    assert len(commuted) == 16
    for order, (first, second) in product(range(16), [("x", "x"), ("x", "z"), ("z", "x")]):
        op = Writer(order)
        left, right = op("Add", first, "c"), op("Add", op("Mul", "x", "d"), op("Neg", second))
        op("Mul", left, right, to="y")
        of = model(body(op), "float c = {2}, float d = {3}", inputs="float[2,8] x, float[2,8] z")
        by_commuting = any(each.match(of, of.graph, of.graph[-1], check_nodes_are_removable=False) for each in commuted)
        assert bool(match(pattern, of)) is by_commuting is (first == second)
