"""Rotary positions as one node: how graphs spell them, what is written, and what is left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.fusion.forms import rotations
from ffn_export.fusion.pipeline import fuse, rewrite
from tests.fusion.graphs import assert_interface_kept, assert_same_results, cast, model, operators, run

ONE = "RotaryEmbedding"
# Two heads of 8 channels. Angles: [batch, 1, seq, 4] for pairs, and for channels, each twice.
INPUTS = "float[batch,seq,16] x, float[batch,1,seq,4] angle"
OUT = "float[batch,2,seq,8] y"
CONSTANTS = """int64[4] by_heads = {0, 0, 2, 8}, int64[1] zero = {0}, int64[1] four = {4}, int64[1] eight = {8},
    int64[1] last = {-1}, int64[1] one = {1}, int64[1] two = {2}, int64[5] in_pairs = {0, 0, 0, 0, 2},
    int64[4] flat = {0, 0, 0, 8}, int64[1] five = {5}, int64[1] end = {9223372036854775807}"""
HEADS = "r = Reshape(x, by_heads) h = Transpose<perm = [0, 2, 1, 3]>(r)"
TWICE = "t = Concat<axis = -1>(angle, angle) cos = Cos(t) sin = Sin(t)"
TURNED = """a = Slice(h, zero, four, last) b = Slice(h, four, end, last) n = Neg(b)
    turned = Concat<axis = -1>(n, a)"""
SUM = "m = Mul(h, cos) k = Mul(turned, sin) y = Add(m, k)"
ROTARY = f"{HEADS} {TWICE} {TURNED} {SUM}"
# Angles of pairs, and each half on its own.
ONCE = "cos = Cos(angle) sin = Sin(angle)"
SPLIT = "a, b = Split<axis = -1, num_outputs = 2>(h)"
HALVES = """ac = Mul(a, cos) bs = Mul(b, sin) bc = Mul(b, cos) as = Mul(a, sin) d = Sub(ac, bs) s = Add(bc, as)
    y = Concat<axis = -1>(d, s)"""
# Neighbours change places; each angle stands twice in a row.
IN_PAIRS = (
    """ax = Unsqueeze(angle, five) w = Concat<axis = -1>(ax, ax) t = Reshape(w, flat) cos = Cos(t) sin = Sin(t)"""
)
NEIGHBOURS = f"""{HEADS} {IN_PAIRS.replace("five", "last")} a = Slice(h, zero, end, last, two)
    b = Slice(h, one, end, last, two) n = Neg(b) nx = Unsqueeze(n, last) xx = Unsqueeze(a, last)
    c = Concat<axis = -1>(nx, xx) turned = Reshape(c, flat) {SUM}"""
# The last two channels of each head pass.
PARTIAL = f"""{HEADS} {TWICE} g = Slice(h, zero, six, last) rest = Slice(h, six, end, last)
    {TURNED.replace("four", "three").replace("(h,", "(g,")}
    m = Mul(g, cos) k = Mul(turned, sin) p = Add(m, k) y = Concat<axis = -1>(p, rest)"""

WRITTEN = [*("Cos", "Slice", "Squeeze", "Sin", "Slice", "Squeeze"), ONE, "Reshape", "Transpose"]


def rotary(body: str, inputs: str = INPUTS, outputs: str = OUT, constants: str = "") -> Any:
    more = f", {constants}" if constants else ""
    return model(
        body, f"{CONSTANTS}, int64[1] six = {{6}}, int64[1] three = {{3}}{more}", inputs=inputs, outputs=outputs
    )


def given(batch: int = 2, seq: int = 3, angles: tuple[int, ...] | None = None, seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    shape = (batch, 1, seq, 4) if angles is None else angles
    x = draw.standard_normal((batch, seq, 16)).astype(np.float32)
    return {"x": x, "angle": draw.uniform(-3, 3, shape).astype(np.float32)}


def assert_written(of: ir.Model, *inputs: Mapping[str, Any], count: int = 1) -> ir.Model:
    """Fuse, and compare the interface and the numbers."""
    fused, report = fuse(of)
    assert operators(fused).count(ONE) == report.rules.get("rotary", 0) == count
    assert not {"Neg", "Sub", "Add"} & set(operators(fused))
    onnx.checker.check_model(ir.to_proto(fused))
    assert_interface_kept(of, fused)
    for each in inputs or [given()]:
        assert_same_results(of, fused, each)
    return fused


def assert_left(of: ir.Model) -> None:
    fused, report = fuse(of)
    assert ONE not in operators(fused)
    assert "rotary" not in report.rules


@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (3, 40), (0, 3), (2, 0), (0, 0)])
def test_it_turns_rows_of_any_number(shape: tuple[int, int]) -> None:
    fused = assert_written(rotary(ROTARY), given(*shape))
    assert sorted(operators(fused)) == sorted(["Concat", *WRITTEN])
    node = next(node for node in fused.graph if node.op_type == ONE)
    assert node.inputs[0] is fused.graph.inputs[0]
    assert {name: each.value for name, each in node.attributes.items()} == {"num_heads": 2, "interleaved": 0}


@pytest.mark.parametrize(
    "body",
    [
        ROTARY.replace("Mul(h, cos)", "Mul(cos, h)").replace("Add(m, k)", "Add(k, m)"),
        f"{HEADS} {ONCE} {SPLIT} {HALVES}",
        f"{HEADS} {ONCE} {SPLIT} {HALVES.replace('Add(bc, as)', 'Add(as, bc)').replace('Mul(b, sin)', 'Mul(sin, b)')}",
        f"{HEADS} {TWICE} {SPLIT} n = Neg(b) turned = Concat<axis = 3>(n, a) {SUM}",
        ROTARY.replace("sin = Sin(t)", "u = Sin(t) sin = Mul(u, scale)"),
        NEIGHBOURS,
    ],
    ids=["other orders", "halves", "halves in other orders", "split", "scaled angles", "neighbours"],
)
def test_spellings(body: str) -> None:
    scale = "float scale = {1.25}"
    fused = assert_written(rotary(body, constants=scale), given(), given(0, 3))
    node = next(node for node in fused.graph if node.op_type == ONE)
    assert node.attributes.get_int("interleaved") == (body is NEIGHBOURS)


def test_channels_may_pass_behind_those_that_turn() -> None:
    inputs = INPUTS.replace("seq,4", "seq,3")
    fused = assert_written(rotary(PARTIAL, inputs), given(angles=(2, 1, 3, 3)))
    node = next(node for node in fused.graph if node.op_type == ONE)
    assert node.attributes.get_int("rotary_embedding_dim") == 6


def test_angles_for_all_of_a_batch() -> None:
    for axes, angles in (("1,1,seq,4", (1, 1, 3, 4)), ("1,seq,4", (1, 3, 4)), ("seq,4", (3, 4))):
        inputs = INPUTS.replace("batch,1,seq,4", axes)
        assert_written(rotary(ROTARY, inputs), given(angles=angles), given(1, 3, angles))


def test_heads_behind_the_length() -> None:
    body = ROTARY.replace("h = Transpose<perm = [0, 2, 1, 3]>(r)", "h = Identity(r)")
    of = rotary(body, INPUTS.replace("1,seq,4", "seq,1,4"), "float[batch,seq,2,8] y")
    fused = assert_written(of, given(angles=(2, 3, 1, 4)))
    assert "Transpose" not in operators(fused)


def test_tables_that_hold_each_angle_twice() -> None:
    half = np.random.default_rng(1).uniform(-1, 1, (6, 4)).astype(np.float32)
    body = f"cos = Gather<axis = 0>(table, at) sin = Gather<axis = 0>(table, at) {HEADS} {TURNED} {SUM}"

    def table(array: Any) -> Any:
        of = rotary(body, "float[batch,seq,16] x, int64[seq] at, float[6,8] table")
        value = next(each for each in of.graph.inputs if each.name == "table")
        of.graph.inputs.remove(value)
        value.const_value = ir.tensor(array, name="table")
        of.graph.register_initializer(value)
        return of

    inputs = {"x": given()["x"], "at": np.array([4, 0, 2])}
    assert_written(table(np.concatenate([half, half], -1)), inputs)
    assert_left(table(np.concatenate([half, half + 1e-3], -1)))


def test_layers_share_their_angles() -> None:
    second = re.sub(r"\b([abhnmky]|turned)\b", r"\g<1>2", f"h = Transpose<perm = [0, 2, 1, 3]>(r2) {TURNED} {SUM}")
    of = rotary(f"{ROTARY} r2 = Reshape(z, by_heads) {second}", f"{INPUTS}, float[batch,seq,16] z", f"{OUT}, {OUT}2")
    fused = assert_written(of, given() | {"z": given(seed=1)["x"]}, count=2)
    assert operators(fused).count("Slice") == 2


@pytest.mark.parametrize(
    "changed",
    [
        ("Neg(b)", "Neg(a)"),
        ("Concat<axis = -1>(n, a)", "Concat<axis = -1>(a, n)"),
        ("Concat<axis = -1>(angle, angle)", "Concat<axis = -1>(angle, other)"),
        ("Mul(h, cos)", "Mul(x2, cos)"),
        ("Slice(h, four, end, last)", "Slice(h, zero, four, last)"),
        ("y = Add(m, k)", "y = Sub(m, k)"),
        ("n = Neg(b)", "n = Abs(b)"),
    ],
)
def test_what_turns_otherwise_is_left(changed: tuple[str, str]) -> None:
    assert changed[0] in ROTARY
    more = ", float[batch,1,seq,4] other, float[batch,2,seq,8] x2"
    assert_left(rotary(ROTARY.replace(*changed), INPUTS + more))


@pytest.mark.parametrize(
    "changed", [("Mul(b, cos)", "Mul(a, cos)"), ("Add(bc, as)", "Sub(bc, as)"), ("(d, s)", "(s, d)")]
)
def test_halves_that_turn_otherwise_are_left(changed: tuple[str, str]) -> None:
    body = f"{HEADS} {ONCE} {SPLIT} {HALVES}"
    assert changed[0] in body
    assert_left(rotary(body.replace(*changed)))


def test_heads_that_were_repeated_before_are_turned_as_they_are() -> None:
    repeated = """r = Reshape(x, of_one) g = Transpose<perm = [0, 2, 1, 3]>(r) u = Unsqueeze(g, two)
        w = Expand(u, twice) h = Reshape(w, of_two)"""
    constants = "int64[4] of_one = {0, 0, 1, 8}, int64[5] twice = {1, 1, 2, 1, 1}, int64[4] of_two = {0, 2, -1, 8}"
    of = rotary(ROTARY.replace(HEADS, repeated), INPUTS.replace("16", "8"), constants=constants)
    fused, report = fuse(of)
    assert report.rules == {"rotary": 1}
    assert_same_results(of, fused, given() | {"x": given()["x"][..., :8]})


def test_neighbours_are_no_halves() -> None:
    assert_left(rotary(NEIGHBOURS.replace(IN_PAIRS.replace("five", "last"), TWICE)))
    assert_left(rotary(ROTARY.replace(TWICE, IN_PAIRS.replace("five", "last"))))


def test_neighbours_that_are_put_back_elsewhere_are_left() -> None:
    body = NEIGHBOURS.replace("turned = Reshape(c, flat)", "turned = Reshape(c, apart)")
    inputs = INPUTS.replace("batch", "1")
    of = rotary(body, inputs, "float[2,2,seq,8] y", "int64[4] apart = {-1, 1, 0, 8}")
    assert run(of, given(1, 3))[0].shape == (2, 2, 3, 8)
    assert_left(of)


def test_angles_that_widen_the_heads_are_left() -> None:
    inputs = "float[1,seq,16] x, float[batch,1,seq,4] angle"
    assert_left(rotary(ROTARY, inputs))
    assert_left(rotary(ROTARY, INPUTS.replace("batch,1,seq,4", "batch,2,seq,4")))


def test_what_is_read_elsewhere_is_left() -> None:
    assert_left(rotary(ROTARY, outputs=f"{OUT}, float[batch,2,seq,8] turned"))


def test_what_a_branch_reads_of_the_graph_around_it_stays_there() -> None:
    before, end = ROTARY.removesuffix("y = Add(m, k)"), "(float[batch,2,seq,8] z)"
    branches = f"then_branch = a () => {end} {{ z = Add(m, k) }}, else_branch = b () => {end} {{ z = Identity(h) }}"
    of = rotary(f"{before} y = If<{branches}>(first)", f"{INPUTS}, bool first")
    fused, report = fuse(of)
    assert report.problem is None
    inputs = given() | {"first": np.array(True)}
    assert np.array_equal(run(fused, inputs)[0], run(of, inputs)[0])


def test_half_precision_is_left() -> None:
    assert_left(cast(rotary(ROTARY), ir.DataType.FLOAT16))


def test_an_opset_that_cannot_be_raised_is_left() -> None:
    of = rotary(ROTARY, f"{INPUTS}, float[batch,seq,16] z", f"{OUT}, float[batch,1,16] u")
    of.graph.append(ir.node("GlobalLpPool", [of.graph.inputs[2]], outputs=[of.graph.outputs[1]]))
    of.opset_imports[""] = 20
    assert_left(of)


def test_it_raises_the_opset() -> None:
    of = rotary(ROTARY)
    of.opset_imports[""] = 18
    assert assert_written(of).opset_imports[""] == 23
    of.opset_imports[""] = 13
    assert_left(of)


def test_it_can_be_left_out() -> None:
    of = rotary(ROTARY)
    assert ONE not in operators(fuse(of, forms=[])[0])
    assert ONE not in operators(rewrite(of, excluded=["y"]).model)
    assert ONE not in operators(fuse(of, "portable")[0])


def test_a_node_that_cannot_be_read_costs_its_positions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(node: ir.Node) -> None:
        raise RuntimeError("malformed")

    monkeypatch.setenv("FFN_EXPORT_STRICT", "")
    monkeypatch.setattr(rotations, "read", fails)
    _, report = fuse(rotary(ROTARY))
    assert report.problem is None


ATTENTION = """kr = Reshape(key, by_heads) kt = Transpose<perm = [0, 2, 3, 1]>(kr) vr = Reshape(key, by_heads)
    vh = Transpose<perm = [0, 2, 1, 3]>(vr) sc = MatMul(y0, kt) wt = Softmax<axis = -1>(sc) o = MatMul(wt, vh)
    oh = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(oh, merged)"""


@pytest.mark.parametrize(("target", "expected"), [("ort-cpu", "MultiHeadAttention"), ("ort-native", "Attention")])
def test_attention_reads_its_rows(target: str, expected: str) -> None:
    body = ROTARY.replace("y = Add(m, k)", "z = Add(m, k) y0 = Mul(z, scale)")
    of = rotary(
        f"{body} {ATTENTION}",
        f"{INPUTS}, float[batch,seq,16] key",
        "float[batch,seq,16] y",
        "int64[3] merged = {0, 0, 16}, float scale = {0.5}",
    )
    fused, _ = fuse(of, target)
    assert [node for node in operators(fused) if node not in ("Concat", *WRITTEN[:6])] == [ONE, expected]
    inputs = given() | {"key": given(seed=1)["x"]}
    assert np.allclose(run(fused, inputs)[0], run(of, inputs)[0], atol=1e-6)


def test_it_is_read_back() -> None:
    """A file that was fused before is fused to the same again."""
    fused, _ = fuse(rotary(ROTARY))
    again, _ = fuse(ir.from_proto(ir.to_proto(fused)))
    assert operators(again) == operators(fused)
