from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.parity.cases.thresholds.every import every, may_hold, reader
from tests.fusion.graphs import model

_TABLES = """
    float[3,2] table = {1, 2, 3, 4, 5, 6}, float[3,2] other = {1, 2, 3, 4, 5, 6}, int64 one = {1}, int64 two = {2}
"""


def _graph(body: str) -> ir.Model:
    return model(body, _TABLES, inputs="int64[batch,seq] ids", outputs="float[a,b,2] y")


@pytest.mark.parametrize(
    "body",
    [
        "y = Gather<axis = 0>(table, ids)",
        "moved = Add(ids, one) y = Gather<axis = 0>(table, moved)",
        "shown = Equal(ids, one) y = Cast<to = 1>(shown)",
    ],
)
def test_a_table_and_a_comparison_need_no_further_cases(body: str) -> None:
    assert reader(_graph(body), "ids") is None


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        ("a = Gather<axis = 0>(table, ids) b = Gather<axis = 0>(other, ids) y = Add(a, b)", "Gather"),
        ("half = Div(ids, two) y = Cast<to = 1>(half)", "Div"),
    ],
)
def test_other_readers_of_integers_are_named(body: str, operator: str) -> None:
    node = reader(_graph(body), "ids")
    assert node is not None
    assert node.op_type == operator


def test_the_cases_hold_every_integer_once_the_range_is_affordable() -> None:
    graph = _graph("y = Gather<axis = 0>(table, ids)")
    (spec,) = specs = parse_inputs({"ids": "int64[batch<=8,seq<=4]{5..99}"})
    assert may_hold(spec)
    made = every(graph, spec, specs, {"batch": 3, "seq": 3}, 0)
    assert [feeds["ids"].shape for feeds in made] == [(8, 4)] * 3
    assert {int(n) for feeds in made for n in np.unique(feeds["ids"])} == {*range(5, 100)}
    (spec,) = specs = parse_inputs({"ids": "int64[batch<=8,seq<=4]{0..100000}"})
    assert every(graph, spec, specs, {"batch": 3, "seq": 3}, 0) == []


def test_few_integers_are_drawn_anyway() -> None:
    assert not any(map(may_hold, parse_inputs({"a": "int64[n]{0..9}", "m": "int64[n]{mask}", "x": "float32[n]"})))
