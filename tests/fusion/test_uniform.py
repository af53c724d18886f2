"""Values of which every element is one number."""

from __future__ import annotations

import pytest

from ffn_export.fusion.uniform import number_everywhere
from tests.fusion.graphs import model

NUMBERS = """float[2] same = {3, 3}, float[2] other = {3, 4}, bool[2] yes = {1, 1}, bool[2] mixed = {1, 0},
    float[1] one = {1}, float low = {-3e38}, float[1] half = {0.5}"""


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("y = Identity(same)", 3),
        ("y = Expand(same, sizes)", 3),
        ("y = Transpose(same)", 3),
        ("y = Where(yes, same, other)", 3),
        ("y = Where(yes, other, same)", None),
        ("y = Where(mixed, same, same)", None),
        ("y = Where(x, same, other)", None),
        ("y = Identity(other)", None),
        ("y = Identity(yes)", 1),
        ("y = Identity(mixed)", None),
        ("y = Expand(x, sizes)", None),
        ("y = Add(same, same)", 6),
        ("y = Add(same, other)", None),
        ("y = Div(same, same)", None),
        ("y = Cast<to = 1>(yes)", 1),
        ("y = Cast<to = 6>(half)", 0),
        ("c = And(yes, yes) y = Where(c, same, other)", 3),
        ("c = Or(yes, mixed) y = Where(c, same, other)", None),
        ("c = Not(yes) y = Where(c, other, same)", 3),
        ("ones = Expand(one, sizes) padding = Sub(one, ones) y = Mul(padding, low)", 0),
    ],
)
def test_it_is_read_over_nodes_that_move_compute_and_choose(body: str, number: float | None) -> None:
    graph = model(body, NUMBERS, inputs="bool[2] x, int64[2] sizes", outputs="float[m,n] y").graph
    assert number_everywhere(graph.outputs[0]) == number


def test_an_initializer_that_the_caller_may_override_is_not_read() -> None:
    graph = model("y = Identity(same)", "float[2] same = {3, 3}", inputs="float[2] same", outputs="float[2] y").graph
    assert number_everywhere(graph.outputs[0]) is None
