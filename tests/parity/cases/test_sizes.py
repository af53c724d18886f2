"""What sizes do in a graph is read off it, and sizes are drawn on both sides of what they decide."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.core.words import size_label
from ffn_export.parity.cases.sizes.plan import Plan, asked, plan
from ffn_export.parity.cases.sizes.work import Work
from tests.fusion.graphs import model

pytestmark = pytest.mark.traced

SPECS = parse_inputs({"x": "float32[batch,seq<=8192,4]"})
CONSTANTS = """
    float one = {1}, float factor = {1.001}, int64[1] zero = {0}, int64[1] first = {1}, int64[1] three = {3},
    int64[1] two = {2}, int64[1] hundred = {100}, int64[1] many = {2048}, int64[1] most = {5000}, int64 start = {0},
    int64 step = {1}, int64[1] end = {9223372036854775807}, float tens = {8}
"""


def planned(body: str) -> Plan:
    graph = model(body, CONSTANTS, inputs="float[batch,seq,4] x", outputs="float[a,b,4] y", opset=20)
    return plan(graph, SPECS, {}, 0)


def uses(body: str) -> list[str]:
    found = planned(body).sizes
    assert found is not None
    return [use.size for use in found.uses]


def asks(body: str) -> set[str]:
    graph = model(body, CONSTANTS, inputs="float[batch,seq,4] x", outputs="float[a,b,4] y", opset=20)
    return {size_label(sizes) for sizes in asked(graph, SPECS, lambda sizes: math.prod(sizes.values()))[2]}


@pytest.mark.parametrize(
    "body",
    [
        "y = Mul(x, x)",
        "s = Shape(x) b = Slice(s, zero, two) c = Concat<axis = 0>(b, two, two) h = Reshape(x, c) y = Reshape(h, s)",
        "s = Shape(x) ones = ConstantOfShape(s) y = Add(x, ones)",
        "s = Shape(x) wide = Expand(one, s) y = Mul(x, wide)",
        "m = ReduceMean(x, first) y = Sub(x, m)",
        "h = Slice(x, zero, end, first) y = Relu(h)",
    ],
)
def test_sizes_that_only_shape_data_are_proven_to(body: str) -> None:
    sizes = planned(body).sizes
    assert sizes is not None
    assert sizes.proven


SEQ = "s = Shape(x) n = Gather(s, first) "
CHOSEN = " f = Where(c, factor, one) y = Mul(x, f)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (SEQ + "c = Equal(n, hundred)" + CHOSEN, {"batch=1,seq=99", "batch=1,seq=100", "batch=1,seq=101"}),
        (SEQ + "r = Mod(n, three) c = Equal(r, two)" + CHOSEN, {"batch=1,seq=2", "batch=1,seq=3"}),
        (SEQ + "c = GreaterOrEqual(n, most)" + CHOSEN, {"batch=1,seq=4999", "batch=1,seq=5000"}),
        ("n = Size(x) c = GreaterOrEqual(n, many)" + CHOSEN, {"batch=511,seq=1", "batch=512,seq=1"}),
        ("z = Sub(x, x) o = Add(z, one) n = ReduceSum(o) c = GreaterOrEqual(n, tens)" + CHOSEN, {"batch=1,seq=2"}),
        ("h = Slice(x, zero, hundred, first) m = ReduceMean(h, first) y = Sub(x, m)", {"batch=1,seq=101"}),
        (
            "s = Shape(x) b = Gather(s, zero) n = Gather(s, first) d = GreaterOrEqual(b, two) e = Less(hundred, n) "
            "c = And(d, e)" + CHOSEN,
            {"batch=2,seq=101", "batch=1,seq=101", "batch=2,seq=100"},
        ),
    ],
)
def test_both_sides_of_what_sizes_decide_are_asked_for(body: str, wanted: set[str]) -> None:
    assert uses(body)
    assert wanted <= asks(body)


def test_positions_are_numbers_of_sizes_and_are_named() -> None:
    body = SEQ + "k = Squeeze(n) r = Range(start, k, step) f = Cast<to = 1>(r) g = Unsqueeze(f, first) y = Add(x, g)"
    assert uses(body) == ["(seq - 1)"]


def test_the_same_sizes_are_left_out_every_time_and_listed() -> None:
    one, other = planned("y = Mul(x, x)"), planned("y = Mul(x, x)")
    assert one.sizes is not None
    assert one.sizes.left_out
    assert one == other
    tried = {size_label(case.sizes) for case in one.cases}
    assert tried.isdisjoint(one.sizes.left_out)
    assert "batch=128,seq=128" in one.sizes.left_out


def test_the_work_of_many_sizes_is_that_of_each() -> None:
    specs = parse_inputs({"x": "float32[batch,seq,4]", "y": "float32[seq,4]"})
    count = Work(2**50, 2**26).of_sizes(specs)
    batch, seq = [1, 3, 2**20], [7, 1, 2**12]
    together = count({"batch": np.array(batch, object), "seq": np.array(seq, object)})
    assert together.tolist() == [count({"batch": b, "seq": s}) for b, s in zip(batch, seq, strict=True)]
    assert together[-1] > 2**80
