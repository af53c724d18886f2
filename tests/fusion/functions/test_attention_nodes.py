"""Attention as one node: how exports spell it, and what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.fusion.functions.nodes import assert_left, assert_outlines, attributes, graph, names, nodes
from tests.fusion.graphs import cast, operators, run
from tests.fusion.graphs import model as parsed

ROWS = "float[batch,seq,16] q, float[batch,seq,16] k, float[batch,seq,16] v"
GROUPED = "float[batch,seq,16] q, float[batch,seq,8] k, float[batch,seq,8] v"
OUT = "float[batch,seq,16] y"
MASK = "float[batch,1,seq,seq] mask"
CONSTANTS = """int64[4] by_heads = {0, 0, 4, 4}, int64[4] by_groups = {0, 0, 2, 4}, int64[3] merged = {0, 0, 16},
    float half = {0.5}, float zero = {0}, float lowest = {-3e38}, int64[1] two = {2}"""
HEADS = """qr = Reshape(q, by_heads) qh = Transpose<perm = [0, 2, 1, 3]>(qr)
    kr = Reshape(k, by_heads) kt = Transpose<perm = [0, 2, 3, 1]>(kr)
    vr = Reshape(v, by_heads) vh = Transpose<perm = [0, 2, 1, 3]>(vr)"""
SCORES = "p = MatMul(qh, kt) sc = Mul(p, half)"
MIXED = "wt = Softmax<axis = -1>(sc) o = MatMul(wt, vh)"
MERGED = "oh = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(oh, merged)"
PLAIN = f"{HEADS} {SCORES} {MIXED} {MERGED}"


def attention(body: str, inputs: str = ROWS, outputs: str = OUT) -> Any:
    return parsed(body, CONSTANTS, inputs=inputs, outputs=outputs)


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(sum(shape) + seed).standard_normal(shape).astype(np.float32)


def test_it_reads_rows() -> None:
    (node,) = nodes(assert_outlines(attention(PLAIN), ["Attention"]))
    assert names(node) == ["q", "k", "v"]
    assert attributes(node) == {"num_heads": 4, "kv_num_heads": 4, "scale": 0.5, "causal": 0}
    assert node.outputs[0].name == "y"


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ("sc = MatMul(qh, kt)", 1.0),
        ("p = MatMul(qh, kt) sc = Div(p, half)", 2.0),
        ("qs = Mul(qh, half) sc = MatMul(qs, kt)", 0.5),
        ("qs = Mul(qh, half) ks = Mul(half, kt) sc = MatMul(qs, ks)", 0.25),
    ],
)
def test_scales(scores: str, scale: float) -> None:
    one = assert_outlines(attention(f"{HEADS} {scores} {MIXED} {MERGED}"), ["Attention"], exact=False)
    assert attributes(nodes(one)[0])["scale"] == scale
    assert operators(one) == ["Attention"]


def test_a_scale_before_the_heads() -> None:
    body = PLAIN.replace("Reshape(q, by_heads)", "Reshape(qs, by_heads)")
    one = assert_outlines(attention(f"qs = Mul(q, half) {body}"), ["Attention"], exact=False)
    assert attributes(nodes(one)[0])["scale"] == 0.25


@pytest.mark.parametrize("add", ["Add(s0, mask)", "Add(mask, s0)"])
def test_a_mask(add: str) -> None:
    body = PLAIN.replace("sc =", "s0 =").replace("wt =", f"sc = {add} wt =")
    (node,) = nodes(assert_outlines(attention(body, f"{ROWS}, {MASK}"), ["Attention"]))
    assert names(node) == ["q", "k", "v", "mask"]


@pytest.mark.parametrize("shape", ["seq,seq", "batch,1,1,seq", "1,4,seq,seq", "1,1,seq,1"])
def test_masks_that_broadcast(shape: str) -> None:
    body = PLAIN.replace("sc =", "s0 =").replace("wt =", "sc = Add(s0, mask) wt =")
    assert_outlines(attention(body, f"{ROWS}, float[{shape}] mask"), ["Attention"])


def test_several_masks_are_added_once_for_all_layers() -> None:
    masked = PLAIN.replace("sc =", "s0 =").replace("wt =", "s1 = Add(s0, position) sc = Add(s1, mask) wt =")
    again = masked
    for name in ["qr", "qh", "kr", "kt", "vr", "vh", "p", "s0", "s1", "sc", "wt", "o", "oh", "y"]:
        again = (
            again.replace(f"{name} =", f"{name}2 =")
            .replace(f"({name},", f"({name}2,")
            .replace(f"({name})", f"({name}2)")
        )
        again = again.replace(f", {name})", f", {name}2)")
    second = again.replace("Reshape(q,", "Reshape(y,").replace("y2 =", "z =")
    of = attention(f"{masked} {second}", f"{ROWS}, {MASK}, float[1,4,seq,seq] position", "float[batch,seq,16] z")
    one = assert_outlines(of, ["Attention", "Attention"], exact=False)
    assert operators(one) == ["Add", "Attention", "Attention"]


def side_by_side(mask: str) -> Any:
    """Return two attentions with one mask, of which the second ends before the first."""
    masked = PLAIN.replace("sc =", "s0 =").replace("wt =", "sc = Add(s0, mask) wt =")
    second = f" {masked} "
    for name in ("qr", "qh", "kr", "kt", "vr", "vh", "p", "s0", "sc", "wt", "o", "oh"):
        for before, after in ((f" {name} =", f" {name}2 ="), (f"({name},", f"({name}2,"), (f"({name})", f"({name}2)")):
            second = second.replace(before, after)
        second = second.replace(f", {name})", f", {name}2)")
    end = masked.index("oh =")
    body = f"{masked[:end]} {second.replace('y =', 'z =')} {masked[end:]}"
    return attention(body, f"{ROWS}, float[{mask}] mask", f"{OUT}, float[batch,seq,16] z")


def test_a_prepared_mask_stands_before_all_that_read_it() -> None:
    one = assert_outlines(side_by_side("seq,seq"), ["Attention", "Attention"])
    assert operators(one) == ["Unsqueeze", "Attention", "Attention"]


@pytest.mark.parametrize("hides", ["Where(keep, s0, lowest)", "Where(drop, lowest, s0)"])
def test_a_mask_that_is_chosen(hides: str) -> None:
    body = PLAIN.replace("sc =", "s0 =").replace("wt =", f"sc = {hides} wt =")
    of = attention(body, f"{ROWS}, bool[batch,1,1,seq] {'keep' if 'keep' in hides else 'drop'}")
    name = str(of.graph.inputs[-1].name)
    mask = np.array([[1, 1, 1], [1, 1, 0]], bool).reshape(2, 1, 1, 3) ^ (name == "drop")
    inputs = {each: drawn(2, 3, 16, seed=place) for place, each in enumerate("qkv")} | {name: mask}
    one = assert_outlines(of, ["Attention"], inputs)
    assert operators(one) == ["Where", "Attention"]


@pytest.mark.parametrize("told", ["IsNaN(w0)", "IsInf<detect_positive=0>(sc)"])
def test_a_row_that_sees_no_key_is_zero(told: str) -> None:
    body = (
        PLAIN.replace("sc =", "s0 =")
        .replace("wt =", "sc = Add(s0, mask) w0 =")
        .replace("(sc) o", f"(sc) n = {told} wt = Where(n, zero, w0) o")
    )
    inputs = {each: drawn(2, 3, 16, seed=place) for place, each in enumerate("qkv")}
    inputs["mask"] = np.zeros((2, 1, 3, 3), np.float32)
    inputs["mask"][1, 0, 1] = -np.inf
    inputs["mask"][0, 0, 1, 2] = -np.inf
    of = attention(body, f"{ROWS}, {MASK}")
    one = assert_outlines(of, ["Attention"], inputs)
    assert operators(one) == ["Attention", "Pad", "ReduceMax", "Slice", "Squeeze", "Equal", "Where"]
    for batch, seq in (0, 3), (2, 0), (0, 0):
        empty = {each: np.zeros((batch, seq, 16), np.float32) for each in "qkv"}
        (y,) = run(one, empty | {"mask": np.zeros((batch, 1, seq, seq), np.float32)})
        assert y.shape == (batch, seq, 16)


def grouped() -> Any:
    """Return an attention of four heads on two of keys and values."""
    body = f"""{PLAIN.replace("k, by_heads", "k, by_groups").replace("v, by_heads", "v, by_groups")}"""
    repeat = """kg = Transpose<perm = [0, 2, 1, 3]>(kr) ku = Unsqueeze(kg, two) ke = Expand(ku, twice)
        kx = Reshape(ke, joined) kt = Transpose<perm = [0, 1, 3, 2]>(kx)"""
    body = body.replace("kt = Transpose<perm = [0, 2, 3, 1]>(kr)", repeat)
    body = body.replace(
        "vh = Transpose<perm = [0, 2, 1, 3]>(vr)",
        "vg = Transpose<perm = [0, 2, 1, 3]>(vr) vu = Unsqueeze(vg, two) ve = Expand(vu, twice) "
        "vh = Reshape(ve, joined)",
    )
    sizes = "int64[5] twice = {1, 1, 2, 1, 1}, int64[4] joined = {2, 4, 3, 4}"
    inputs = GROUPED.replace("batch", "2").replace("seq", "3")
    return parsed(body, f"{CONSTANTS}, {sizes}", inputs=inputs, outputs="float[2,3,16] y")


def test_grouped_heads() -> None:
    (node,) = nodes(assert_outlines(grouped(), ["Attention"]))
    assert names(node) == ["q", "k", "v"]
    assert (attributes(node)["num_heads"], attributes(node)["kv_num_heads"]) == (4, 2)


def test_heads_that_are_computed_after_they_are_split_off() -> None:
    one = assert_outlines(
        attention(PLAIN.replace("p = MatMul(qh, kt)", "qc = Sin(qh) p = MatMul(qc, kt)")), ["Attention"]
    )
    assert operators(one) == ["Reshape", "Transpose", "Sin", "Transpose", "Reshape", "Attention"]


def test_a_result_that_stays_by_heads() -> None:
    of = attention(f"{HEADS} {SCORES} {MIXED} y = Sin(o)", outputs="float[batch,4,seq,4] y")
    assert operators(assert_outlines(of, ["Attention"])) == ["Attention", "Reshape", "Transpose", "Sin"]


def test_a_triangular_mask_is_causal() -> None:
    mask = """shape = Shape(q) length = Slice(shape, one, two) square = Concat<axis = 0>(length, length)
        ones = Expand(unit, square) lower = Trilu<upper = 0>(ones) out = Equal(lower, zero)
        mask = Where(out, lowest, zero)"""
    body = f"{mask} {PLAIN.replace('sc =', 's0 =').replace('wt =', 'sc = Add(s0, mask) wt =')}"
    constants = f"{CONSTANTS}, int64[1] one = {{1}}, float unit = {{1}}"
    one = assert_outlines(parsed(body, constants, inputs=ROWS, outputs=OUT), ["Attention"])
    assert attributes(nodes(one)[0])["causal"] == 1
    assert operators(one) == ["Attention"]


WEIGHTS = {"wq": (16, 16), "wk": (16, 16), "wv": (16, 16), "bq": (16,), "packed": (16, 48)}
PROJECTED = "q0 = MatMul(x, wq) q = Add(q0, bq) k = MatMul(x, wk) v = MatMul(x, wv)"
SPLIT = "m = MatMul(x, packed) q, k, v = Split<axis = -1, num_outputs = 3>(m)"


@pytest.mark.parametrize("rows", [PROJECTED, SPLIT], ids=["three products", "one product"])
def test_products_and_attention_pass_one_packed_value(rows: str) -> None:
    of = graph(f"{rows} {PLAIN}", WEIGHTS, inputs="float[batch,seq,16] x", outputs=OUT, constants=CONSTANTS)
    linear, node = nodes(assert_outlines(of, ["Linear", "Attention"]))
    assert "splits" not in attributes(linear)
    assert list(node.inputs) == list(linear.outputs)


def test_products_in_another_order_are_packed_too() -> None:
    rows = "v = MatMul(x, wv) q0 = MatMul(x, wq) q = Add(q0, bq) k = MatMul(x, wk)"
    of = graph(f"{rows} {PLAIN}", WEIGHTS, inputs="float[batch,seq,16] x", outputs=OUT, constants=CONSTANTS)
    assert operators(assert_outlines(of, ["Linear", "Attention"])) == ["Linear", "Attention"]


def test_rows_that_anything_else_reads_are_not_packed() -> None:
    of = graph(
        f"{PROJECTED} {PLAIN} z = Sin(k)",
        WEIGHTS,
        inputs="float[batch,seq,16] x",
        outputs=f"{OUT}, float[batch,seq,16] z",
        constants=CONSTANTS,
    )
    linear, node = nodes(assert_outlines(of, ["Linear", "Attention"]))
    assert attributes(linear)["splits"] == (16, 16, 16)
    assert list(node.inputs) == list(linear.outputs)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (PLAIN, f"{OUT}, float[batch,4,seq,seq] wt"),
        (f"{PLAIN} z = Sin(sc)", f"{OUT}, float[batch,4,seq,seq] z"),
        (PLAIN.replace("<axis = -1>", "<axis = 1>"), OUT),
        (PLAIN.replace("wt = Softmax", "s1 = Sin(sc) wt = Softmax").replace("(sc) o", "(s1) o"), OUT),
    ],
    ids=["weights are an output", "scores are read", "another axis", "scores are computed"],
)
def test_left(body: str, outputs: str) -> None:
    assert_left(attention(body, ROWS, outputs), {name: drawn(2, 4, 16, seed=place) for place, name in enumerate("qkv")})


def test_a_mask_whose_batch_is_not_proven_is_left() -> None:
    body = PLAIN.replace("sc =", "s0 =").replace("wt =", "sc = Add(s0, mask) wt =")
    given = {name: drawn(2, 3, 16, seed=place) for place, name in enumerate("qkv")} | {"mask": drawn(1, 1, 3, 3)}
    assert_left(attention(body, f"{ROWS}, float[any,1,seq,seq] mask"), given)


def test_keys_of_another_batch_are_left() -> None:
    inputs = ROWS.replace("float[batch,seq,16] k", "float[other,seq,16] k")
    assert_left(attention(PLAIN, inputs), {name: drawn(2, 3, 16, seed=place) for place, name in enumerate("qkv")})


def test_half_precision_is_left() -> None:
    of = parsed(PLAIN, CONSTANTS.replace(", float lowest = {-3e38}", ""), inputs=ROWS, outputs=OUT)
    assert_left(cast(of, ir.DataType.FLOAT16))
