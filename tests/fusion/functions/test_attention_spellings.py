"""Attention as other exports spell it: masks in any order, batch and heads as one axis, keys that lie otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.fusion.functions.nodes import assert_left, assert_outlines, attributes, graph, names, nodes
from tests.fusion.functions.test_attention_nodes import (
    CONSTANTS,
    GROUPED,
    HEADS,
    MASK,
    MERGED,
    MIXED,
    OUT,
    PLAIN,
    ROWS,
    attention,
    drawn,
)
from tests.fusion.graphs import model as parsed
from tests.fusion.graphs import operators, run


def masked(*steps: str, inputs: str = MASK, constants: str = "", before: str = "") -> ir.Model:
    """Return attention whose scaled scores go through steps; ``$`` is the scores before a step."""
    names_of = [*(f"s{place}" for place in range(len(steps))), "sc"]
    body = " ".join(f"{names_of[place + 1]} = {step.replace('$', names_of[place])}" for place, step in enumerate(steps))
    return parsed(
        f"{before} {HEADS} p = MatMul(qh, kt) s0 = Mul(p, half) {body} {MIXED} {MERGED}",
        f"{CONSTANTS}{constants}",
        inputs=f"{ROWS}, {inputs}" if inputs else ROWS,
        outputs=OUT,
    )


def given(**masks: Any) -> dict[str, Any]:
    return {name: drawn(2, 3, 16, seed=place) for place, name in enumerate("qkv")} | masks


def hidden(number: float = -np.inf) -> Any:
    """Return a mask that hides all keys of one query, and one key of another."""
    mask = np.zeros((2, 1, 3, 3), np.float32)
    mask[1, 0, 1] = mask[0, 0, 1, 2] = number
    return mask


@pytest.mark.parametrize(
    ("steps", "written"),
    [
        (["Add($, mask)", "Mul($, half)"], ["Mul"]),
        (["Add($, mask)", "Div($, half)"], ["Mul"]),
        (["Sub($, mask)"], ["Neg"]),
        (["Add($, mask)", "Max($, lowest)"], ["Max"]),
        (["Max($, lowest)", "Add($, mask)"], []),
        (["Add(mask, $)", "Where(drop, lowest, $)"], ["Where"]),
        (["Where(drop, lowest, $)", "Add($, mask)", "Mul($, half)"], ["Where", "Add", "Mul"]),
    ],
)
def test_masks_in_any_order(steps: list[str], written: list[str]) -> None:
    of = masked(*steps, inputs=f"{MASK}, bool[batch,1,1,seq] drop")
    drop = np.array([[0, 1, 0], [0, 0, 0]], bool).reshape(2, 1, 1, 3)
    one = assert_outlines(of, ["Attention"], given(mask=drawn(2, 1, 3, 3), drop=drop), exact=False)
    assert operators(one) == [*written, "Attention"]


@pytest.mark.parametrize("number", [-np.inf, -3e38])
@pytest.mark.parametrize("steps", [["Add($, mask)", "Max($, lowest)"], ["Add($, mask)", "Where(drop, lowest, $)"]])
def test_a_query_that_sees_nothing_gets_the_same_weights(steps: list[str], number: float) -> None:
    of = masked(*steps, inputs=f"{MASK}, bool[batch,1,1,seq] drop")
    inputs = given(mask=hidden(number), drop=np.ones((2, 1, 1, 3), bool))
    one = assert_outlines(of, ["Attention"], inputs)
    assert np.isfinite(run(one, inputs)[0]).all()


ALL = "b = Shape<start = 0, end = 1>(q) l = Shape<start = 1, end = 2>(q) sizes = Concat<axis = 0>(b, one, l, l)"


@pytest.mark.parametrize(
    "step",
    [
        "Add($, zeros)",
        f"Add($, wide) {ALL} wide = Expand(zeros, sizes)",
        "Where(no, lowest, $)",
        f"Where(every, $, lowest) {ALL} every = Expand(yes, sizes)",
        f"Add($, mask) {ALL} every = Expand(yes, sizes) mask = Where(every, zeros, lowest)",
        f"Add($, mask) {ALL} none = Expand(no, sizes) mask = Where(none, lowest, zeros)",
    ],
)
def test_a_mask_that_hides_nothing_is_left_out(step: str) -> None:
    does, _, before = step.partition(" b = ")
    constants = """, float[1,1,1,1] zeros = {0}, bool[1,1,1,1] yes = {1}, bool[1,1,1,1] no = {0},
        int64[1] one = {1}"""
    of = masked(does, inputs="", constants=constants, before=f"b = {before}" if before else "")
    (node,) = nodes(assert_outlines(of, ["Attention"]))
    assert names(node) == ["q", "k", "v"]


@pytest.mark.parametrize("step", ["Where(first, $, lowest)", "Where(first, lowest, $)", "Add($, last)"])
def test_a_mask_that_hides_something_stays(step: str) -> None:
    constants = ", bool[1,1,1,3] first = {1, 0, 0}, float[1,1,1,3] last = {0, 0, -1}"
    (node,) = nodes(assert_outlines(masked(step, inputs="", constants=constants), ["Attention"], exact=False))
    assert len(names(node)) == 4


def test_a_factor_for_each_head_goes_to_the_queries() -> None:
    of = masked("Mul(heads, $)", "Add($, mask)", constants=", float[4,1,1] heads = {1, 2, 0.5, 3}")
    one = assert_outlines(of, ["Attention"], exact=False)
    assert operators(one) == ["Mul", "Attention"]


@pytest.mark.parametrize("axes", ["batch,1,seq,length", "length,length", "1,1,length,length"])
def test_a_mask_that_the_values_prove(axes: str) -> None:
    sizes = {"batch": 2, "seq": 3, "length": 3}
    mask = drawn(*(int(sizes.get(axis, axis)) for axis in axes.split(",")))
    assert_outlines(masked("Add($, mask)", inputs=f"float[{axes}] mask"), ["Attention"], given(mask=mask))


JOINED = """qr = Reshape(q, by_heads) qh = Transpose<perm = [0, 2, 1, 3]>(qr) qj = Reshape(qh, joined)
    kr = Reshape(k, by_heads) kh = Transpose<perm = [0, 2, 1, 3]>(kr) kj = Reshape(kh, joined)
    kt = Transpose<perm = [0, 2, 1]>(kj)
    vr = Reshape(v, by_heads) vh = Transpose<perm = [0, 2, 1, 3]>(vr) vj = Reshape(vh, joined)"""
OF_JOINED = (
    f"{CONSTANTS}, int64[3] joined = {{8, 3, 4}}, int64[4] apart = {{2, 4, 3, 3}}, int64[3] weights = {{8, 3, 3}}"
)
OF_JOINED += ", int64[4] last = {2, 4, 3, 4}"
TWO = ROWS.replace("batch,seq", "2,3")


def joined(scores: str, inputs: str = "", constants: str = OF_JOINED) -> ir.Model:
    """Return attention whose two products take batch and heads as one axis; ``scores`` go from ``p`` to ``w``."""
    body = f"""{JOINED} p = MatMul(qj, kt) {scores} o = MatMul(w, vj) oa = Reshape(o, last)
        oh = Transpose<perm = [0, 2, 1, 3]>(oa) y = Reshape(oh, merged)"""
    return parsed(body, constants, inputs=f"{TWO}{inputs}", outputs="float[2,3,16] y")


@pytest.mark.parametrize(
    ("scores", "inputs"),
    [
        ("w = Softmax<axis = -1>(p)", ""),
        ("s = Mul(p, half) sa = Reshape(s, apart) wa = Softmax<axis = -1>(sa) w = Reshape(wa, weights)", ""),
        (
            "s = Add(p, mask) sa = Reshape(s, apart) wa = Softmax<axis = 3>(sa) w = Reshape(wa, weights)",
            ", float[8,1,3] mask",
        ),
        (
            "s = Add(p, mask) sa = Reshape(s, apart) wa = Softmax<axis = 3>(sa) w = Reshape(wa, weights)",
            ", float[1,3,3] mask",
        ),
        (
            "sa = Reshape(p, apart) s = Add(sa, mask) wa = Softmax<axis = 3>(s) w = Reshape(wa, weights)",
            ", float[4,3,3] mask",
        ),
        (
            "sa = Reshape(p, apart) s = Add(sa, mask) sj = Reshape(s, weights) w = Softmax<axis = 2>(sj)",
            ", float[2,1,1,3] mask",
        ),
    ],
    ids=[
        "alone",
        "apart for the softmax",
        "a mask of joined heads",
        "a mask for all",
        "a mask of heads",
        "apart for the mask",
    ],
)
def test_batch_and_heads_as_one_axis(scores: str, inputs: str) -> None:
    one = assert_outlines(joined(scores, inputs), ["Attention"], exact=False)
    (node,) = nodes(one)
    as_batch = "apart" not in scores
    assert attributes(node)["num_heads"] == (1 if as_batch else 4)
    assert as_batch or names(node)[:3] == ["q", "k", "v"]


@pytest.mark.parametrize("keys", ["kt = Transpose<perm = [0, 2, 1]>(k)", "kt = Transpose<perm = [1, 2, 0]>(kl)"])
def test_one_axis_throughout_is_a_batch_of_single_heads(keys: str) -> None:
    inputs = ROWS.replace("float[batch,seq,16] k", "float[seq,batch,16] kl") if "kl" in keys else ROWS
    of = parsed(
        f"{keys} p = MatMul(q, kt) s = Add(p, mask) w = Softmax<axis = -1>(s) y = MatMul(w, v)",
        inputs=f"{inputs}, float[batch,1,seq] mask",
        outputs=OUT,
    )
    (node,) = nodes(assert_outlines(of, ["Attention"]))
    assert attributes(node) == {"num_heads": 1, "kv_num_heads": 1, "scale": 1.0, "causal": 0}


def test_keys_that_lie_as_the_product_takes_them() -> None:
    body = PLAIN.replace("kr = Reshape(k, by_heads) kt = Transpose<perm = [0, 2, 3, 1]>(kr)", "kt = Sin(k)")
    of = attention(body, ROWS.replace("float[batch,seq,16] k", "float[batch,4,4,seq] k"))
    assert operators(assert_outlines(of, ["Attention"])) == ["Sin", "Transpose", "Reshape", "Attention"]


@pytest.mark.parametrize(("axis", "is_grouped"), [(2, True), (1, False)], ids=["each head twice", "all heads twice"])
def test_heads_that_are_repeated_at_any_length(axis: int, is_grouped: bool) -> None:
    sizes = """kb = Shape<start = 0, end = 1>(k) kl = Shape<start = 1, end = 2>(k)
        target = Concat<axis = 0>(kb, four, kl, four)"""
    repeated = " ".join(
        f"{n}r = Reshape({n}, by_groups) {n}g = Transpose<perm = [0, 2, 1, 3]>({n}r) {n}u = Unsqueeze({n}g, at) "
        f"{n}e = Expand({n}u, twice) {n}h = Reshape({n}e, target)"
        for n in "kv"
    )
    body = f"""qr = Reshape(q, by_heads) qh = Transpose<perm = [0, 2, 1, 3]>(qr) {sizes} {repeated}
        kt = Transpose<perm = [0, 1, 3, 2]>(kh) sc = MatMul(qh, kt) {MIXED} {MERGED}"""
    twice = ", ".join("2" if place == axis else "1" for place in range(5))
    constants = f"{CONSTANTS}, int64[1] four = {{4}}, int64[1] at = {{{axis}}}, int64[5] twice = {{{twice}}}"
    one = assert_outlines(parsed(body, constants, inputs=GROUPED, outputs=OUT), ["Attention"] * is_grouped)
    assert [attributes(node)["kv_num_heads"] for node in nodes(one)] == [2] * is_grouped


def test_masks_of_joined_heads_are_taken_apart_once() -> None:
    scores = "s = Add(p, mask) sa = Reshape(s, apart) wa = Softmax<axis = 3>(sa) w = Reshape(wa, weights)"
    one = assert_outlines(joined(scores, ", float[8,1,3] mask"), ["Attention"], exact=False)
    assert operators(one) == ["Shape", "Shape", "Concat", "Reshape", "Attention"]
    assert names(nodes(one)[0])[:3] == ["q", "k", "v"]


def test_a_mask_of_joined_heads_where_the_length_is_first() -> None:
    body = f"""{JOINED.replace("[0, 2, 1, 3]", "[1, 2, 0, 3]")} p = MatMul(qj, kt) s = Add(p, mask)
        sa = Reshape(s, apart) wa = Softmax<axis = 3>(sa) w = Reshape(wa, weights) o = MatMul(w, vj)
        oa = Reshape(o, last) oh = Transpose<perm = [2, 0, 1, 3]>(oa) y = Reshape(oh, merged)"""
    inputs = f"{TWO.replace('2,3', '3,2')}, float[8,1,3] mask"
    of = parsed(body, OF_JOINED, inputs=inputs, outputs="float[3,2,16] y")
    one = assert_outlines(of, ["Attention"], exact=False)
    assert attributes(nodes(one)[0])["num_heads"] == 4


@pytest.mark.parametrize(
    ("steps", "number", "is_causal"),
    [
        (["Add($, lower)"], -np.inf, 1),
        (["Add($, lower)"], -3e38, 1),
        (["Add($, lower)", "Mul($, half)"], -3e38, 1),
        (["Add($, lower)", "Add($, mask)"], -np.inf, 1),
        (["Add($, lower)", "Add($, mask)"], -3e38, 0),  # a query that sees nothing else takes the later keys
        (["Add($, lower)", "Max($, lowest)", "Add($, mask)"], -np.inf, 0),
        (["Add($, lower)", "Mul($, minus)"], -3e38, 0),
        (["Add($, lower)"], -10000, 0),
        (["Sub($, lower)"], -3e38, 0),
    ],
)
def test_a_constant_triangle(steps: list[str], number: float, is_causal: int) -> None:
    body = " ".join(f"s{place + 1} = {step.replace('$', f's{place}')}" for place, step in enumerate(steps))
    of = graph(
        f"{HEADS} p = MatMul(qh, kt) s0 = Mul(p, half) {body} wt = Softmax<axis = -1>(s{len(steps)}) "
        f"o = MatMul(wt, vh) {MERGED}",
        {"lower": (3, 3)},
        outputs="float[batch,3,16] y",
        inputs=f"{ROWS.replace('seq', '3')}, float[batch,1,3,3] mask",
        constants=f"{CONSTANTS}, float minus = {{-1}}",
    )
    triangle = np.triu(np.full((3, 3), number, np.float32), 1)
    of.graph.initializers["lower"].const_value = ir.tensor(triangle, name="lower")
    (node,) = nodes(assert_outlines(of, ["Attention"], given(mask=hidden(-3e38)), exact=False))
    assert attributes(node)["causal"] == is_causal


def test_a_triangle_of_one_row_is_not_causal() -> None:
    mask = """shape = Shape(q) length = Slice(shape, one, two) row = Concat<axis = 0>(one, length)
        ones = Expand(unit, row) lower = Trilu<upper = 0>(ones) out = Equal(lower, zero)
        mask = Where(out, lowest, zero)"""
    body = f"{mask} {PLAIN.replace('sc =', 's0 =').replace('wt =', 'sc = Add(s0, mask) wt =')}"
    of = parsed(body, f"{CONSTANTS}, int64[1] one = {{1}}, float unit = {{1}}", inputs=ROWS, outputs=OUT)
    (node,) = nodes(assert_outlines(of, ["Attention"], given()))
    assert attributes(node)["causal"] == 0


@pytest.mark.parametrize(
    ("steps", "inputs"),
    [
        (["Tanh($)"], ""),
        (["Div($, half)", "Tanh($)", "Mul($, half)"], ""),
        (["Mul($, mask)"], MASK),
        (["Where(drop, some, $)"], "bool[batch,1,1,seq] drop"),
        (["Max($, some)"], ""),
        (["Sub(mask, $)"], MASK),
        (["Add($, mask)", "Mul($, heads)"], MASK),
        (["Mul($, queries)"], ""),
        (["Add($, mask)"], "float[batch,1,other,seq] mask"),
        (["Add($, mask)"], "float[batch,any,seq,seq] mask"),
    ],
    ids=[
        "tanh",
        "soft-capping",
        "a product with a mask",
        "hides by a small number",
        "a large least number",
        "from a mask",
        "a factor of masks for each head",
        "a factor for each query",
        "unproven queries",
        "unproven heads",
    ],
)
def test_scores_that_the_contract_does_not_say_are_left(steps: list[str], inputs: str) -> None:
    constants = ", float some = {-10000}, float[4,1,1] heads = {1, 2, 0.5, 3}, float[1,3,1] queries = {1, 2, 3}"
    of = masked(*steps, inputs=inputs, constants=constants)
    sizes = {"batch": 2, "seq": 3, "other": 3, "any": 1}
    feeds = given()
    for value in list(of.graph.inputs)[3:]:
        shape = [dim if isinstance(dim, int) else sizes[str(dim.value)] for dim in value.shape or ()]
        feeds[str(value.name)] = drawn(*shape) if value.dtype == ir.DataType.FLOAT else drawn(*shape) > 0
    assert_left(of, feeds)


@pytest.mark.parametrize(
    "scores",
    [
        "w = Softmax<axis = 1>(p)",
        "sa = Reshape(p, swapped) wa = Softmax<axis = -1>(sa) w = Reshape(wa, weights)",
        "sa = Reshape(p, swapped) s = Add(sa, mask) wa = Softmax<axis = -1>(s) w = Reshape(wa, weights)",
    ],
    ids=["another axis", "other heads", "a mask of other heads"],
)
def test_joined_heads_that_are_left(scores: str) -> None:
    constants = f"{OF_JOINED}, int64[4] swapped = {{4, 2, 3, 3}}"
    assert_left(joined(scores, ", float[4,1,1,3] mask", constants))


WEIGHTS = {"wq": (16, 16), "wk": (16, 16), "wv": (16, 16)}


def test_products_pass_one_packed_value_through_joined_heads() -> None:
    rows = "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)"
    body = f"""{rows} {JOINED} p = MatMul(qj, kt) sa = Reshape(p, apart) wa = Softmax<axis = -1>(sa)
        w = Reshape(wa, weights) o = MatMul(w, vj) oa = Reshape(o, last) oh = Transpose<perm = [0, 2, 1, 3]>(oa)
        y = Reshape(oh, merged)"""
    of = graph(body, WEIGHTS, inputs="float[2,3,16] x", outputs="float[2,3,16] y", constants=OF_JOINED)
    assert operators(assert_outlines(of, ["Linear", "Attention"])) == ["Linear", "Attention"]
