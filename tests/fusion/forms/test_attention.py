"""Attention as one node of ONNX Runtime: what is written, what is left, and what takes it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.fusion.forms.choice import default_forms
from ffn_export.fusion.functions import attention_calls, portable
from ffn_export.fusion.pipeline import fuse, rewrite
from ffn_export.fusion.targets import get_target
from tests.fusion.functions.test_attention_nodes import (
    HEADS,
    MASK,
    MERGED,
    MIXED,
    OUT,
    PLAIN,
    ROWS,
    SCORES,
    attention,
    drawn,
    grouped,
    side_by_side,
)
from tests.fusion.functions.test_portable import assert_portable
from tests.fusion.graphs import assert_interface_kept, assert_same_results, model, operators, run

ONE = "MultiHeadAttention"
MASKED = PLAIN.replace("sc =", "s0 =").replace("wt =", "sc = Add(s0, mask) wt =")
ZEROED = MASKED.replace("wt =", "w0 =").replace("(sc) o", "(sc) n = IsNaN(w0) wt = Where(n, zero, w0) o")
LAST = float(np.finfo(np.float32).min)


def given(batch: int = 2, seq: int = 3, **more: Any) -> dict[str, Any]:
    return {name: drawn(batch, seq, 16, seed=place) for place, name in enumerate("qkv")} | more


def assert_written(of: ir.Model, expected: Sequence[str], *inputs: Mapping[str, Any]) -> ir.Model:
    """Fuse, and compare the node list, the interface and the numbers."""
    fused, report = fuse(of)
    assert operators(fused) == list(expected)
    assert report.rules.get("attention", 0) == operators(fused).count(ONE)
    onnx.checker.check_model(ir.to_proto(fused))
    assert_interface_kept(of, fused)
    for each in inputs or [given()]:
        assert_same_results(of, fused, each)
    return fused


def assert_left(of: ir.Model, *inputs: Mapping[str, Any]) -> None:
    assert_written(of, operators(of), *inputs)


@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (3, 40), (0, 3), (2, 0), (0, 0)])
def test_it_reads_rows_of_any_number(shape: tuple[int, int]) -> None:
    fused = assert_written(attention(PLAIN), [ONE], given(*shape))
    node = fused.graph.node(0)
    assert [value and value.name for value in node.inputs] == ["q", "k", "v"]
    assert node.attributes.get_int("num_heads") == 4
    assert node.attributes.get_float("scale") == 0.5


def test_queries_of_another_length_than_keys() -> None:
    of = attention(
        PLAIN, "float[batch,some,16] q, float[batch,seq,16] k, float[batch,seq,16] v", "float[batch,some,16] y"
    )
    for some, seq in (1, 4), (7, 2), (0, 3):
        assert_written(of, [ONE], given(2, seq) | {"q": drawn(2, some, 16)})


@pytest.mark.parametrize(("axes", "sizes"), [("batch,1,seq,seq", (2, 1, 3, 3)), ("1,4,seq,seq", (1, 4, 3, 3))])
def test_a_mask_is_an_input(axes: str, sizes: tuple[int, ...]) -> None:
    mask = np.where(drawn(*sizes) < 0, np.float32(LAST), drawn(*sizes, seed=1))
    nothing = np.full(sizes, LAST, np.float32)  # every key is hidden, and counts as much as any other
    fused = assert_written(
        attention(MASKED, f"{ROWS}, float[{axes}] mask"), [ONE], given(mask=mask), given(mask=nothing)
    )
    assert [value and value.name for value in fused.graph.node(0).inputs] == ["q", "k", "v", None, None, "mask"]


def test_a_mask_for_all_queries_is_widened_once_for_all_layers() -> None:
    names = ("qr", "qh", "kr", "kt", "vr", "vh", "p", "s0", "sc", "wt", "o", "oh", "y")
    second = f" {MASKED} "
    for name in names:
        for before, after in ((f" {name} =", f" {name}2 ="), (f"({name},", f"({name}2,"), (f"({name})", f"({name}2)")):
            second = second.replace(before, after)
        second = second.replace(f", {name})", f", {name}2)")
    second = second.replace("Reshape(q,", "Reshape(y,").replace("y2 =", "z =")
    of = attention(f"{MASKED} {second}", f"{ROWS}, float[batch,1,1,seq] mask", "float[batch,seq,16] z")
    mask = np.array([0, 0, LAST, 0, LAST, LAST], np.float32).reshape(2, 1, 1, 3)
    empty = given(0, 3, mask=mask[:0])
    assert_written(of, ["Shape", "Concat", "Expand", ONE, ONE], given(mask=mask), empty)


def test_a_row_that_sees_no_key_is_zero() -> None:
    mask = np.zeros((2, 1, 3, 3), np.float32)
    mask[1, 0, 1] = mask[0, 0, 1, 2] = -np.inf
    fused = assert_written(
        attention(ZEROED, f"{ROWS}, {MASK}"),
        [ONE, "Pad", "ReduceMax", "Slice", "Squeeze", "Equal", "Where"],
        given(mask=mask),
        given(0, 3, mask=mask[:0]),
    )
    (y,) = run(fused, given(mask=mask))
    assert not y[1, 1].any()


@pytest.mark.parametrize("instead", ["Where(n, half, w0)", "Where(n, zero, s0)", "Where(n, w0, zero)"])
def test_what_becomes_anything_but_0_where_no_key_is_seen_is_left(instead: str) -> None:
    mask = np.zeros((2, 1, 3, 3), np.float32)
    mask[1, 0, 1] = -np.inf
    assert_left(attention(ZEROED.replace("Where(n, zero, w0)", instead), f"{ROWS}, {MASK}"), given(mask=mask))


# PyTorch's nn.MultiheadAttention: the length stands first, and batch and heads are one axis in between.
LENGTH_FIRST = """s = Shape<start = 0, end = 1>(q) b = Shape<start = 1, end = 2>(q) four = Constant<value_ints = [4]>()
    apart = Concat<axis = 0>(b, four, s, four) wide = Constant<value_ints = [16]>()
    q0 = Reshape(q, joined) q1 = Transpose<perm = [1, 0, 2]>(q0) qh = Reshape<allowzero = 1>(q1, apart)
    k0 = Reshape(k, joined) k1 = Transpose<perm = [1, 0, 2]>(k0) k2 = Reshape<allowzero = 1>(k1, apart)
    kt = Transpose<perm = [0, 1, 3, 2]>(k2)
    v0 = Reshape(v, joined) v1 = Transpose<perm = [1, 0, 2]>(v0) vh = Reshape<allowzero = 1>(v1, apart)"""


@pytest.mark.parametrize("joins", [False, True])
def test_rows_whose_length_stands_first(joins: bool) -> None:
    merged = "all = Constant<value_ints = [-1, 16]>() y = Reshape(oh, all)" if joins else "y = Reshape(oh, merged)"
    of = model(
        f"{LENGTH_FIRST} {SCORES} {MIXED} oh = Transpose<perm = [2, 0, 1, 3]>(o) {merged}",
        "int64[3] joined = {0, -1, 4}, int64[3] merged = {0, 0, 16}, float half = {0.5}",
        inputs=ROWS.replace("batch,seq", "seq,batch"),
        outputs="float[rows,16] y" if joins else "float[seq,batch,16] y",
    )
    for inputs in given(3, 2), given(5, 1), given(3, 0):
        assert_written(of, [*["Transpose"] * 3, ONE, "Transpose", *["Reshape"] * joins], inputs)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("takes", ["Gather", "Split"])
def test_queries_keys_and_values_that_lie_beside_each_other(order: tuple[int, ...], takes: str) -> None:
    parts = {"Gather": " ".join(f"p{part} = Gather<axis = 0>(t, n{part})" for part in range(3))}
    parts["Split"] = "s0, s1, s2 = Split<axis = 0, num_outputs = 3>(t) " + " ".join(
        f"p{part} = Squeeze(s{part}, n)" for part in range(3)
    )
    query, key, value = (f"p{part}" for part in order)
    of = model(
        f"""r = Reshape(x, apart) t = Transpose<perm = [2, 0, 3, 1, 4]>(r) {parts[takes]}
        kt = Transpose<perm = [0, 1, 3, 2]>({key})
        {SCORES.replace("qh", query)} {MIXED.replace("vh", value)} {MERGED}""",
        """int64[5] apart = {0, 0, 3, 4, 4}, int64[3] merged = {0, 0, 16}, float half = {0.5}, int64[1] n = {0},
        int64 n0 = {0}, int64 n1 = {1}, int64 n2 = {-1}""",
        inputs="float[batch,seq,48] x",
        outputs=OUT,
    )
    fused = assert_written(of, ["Split", ONE], {"x": drawn(2, 3, 48)}, {"x": drawn(0, 3, 48)}, {"x": drawn(2, 0, 48)})
    split, one = fused.graph
    assert [split.outputs.index(value) for value in one.inputs[:3]] == list(order)


def test_parts_that_lie_within_heads_are_left() -> None:
    of = model(
        f"""r = Reshape(x, apart) t = Transpose<perm = [3, 0, 2, 1, 4]>(r) p0 = Gather<axis = 0>(t, n0)
        p1 = Gather<axis = 0>(t, n1) p2 = Gather<axis = 0>(t, n2) kt = Transpose<perm = [0, 1, 3, 2]>(p1)
        {SCORES.replace("qh", "p0")} {MIXED.replace("vh", "p2")} {MERGED}""",
        """int64[5] apart = {0, 0, 4, 3, 4}, int64[3] merged = {0, 0, 16}, float half = {0.5},
        int64 n0 = {0}, int64 n1 = {1}, int64 n2 = {2}""",
        inputs="float[batch,seq,48] x",
        outputs=OUT,
    )
    assert_left(of, {"x": drawn(2, 3, 48)})


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_numbers_that_are_not_finite_are_handed_on(name: str, number: float) -> None:
    inputs = given()
    inputs[name][1, 2, 5] = number
    fused = assert_written(attention(PLAIN), [ONE], inputs)
    (y,) = run(fused, inputs)
    assert np.isfinite(y[0]).all()


@pytest.mark.parametrize(
    "body",
    [
        HEADS + SCORES + " th = Tanh(sc) wt = Softmax<axis = -1>(th) o = MatMul(wt, vh) " + MERGED,
        # Two of three are computed from heads.
        PLAIN.replace("p = MatMul(qh,", "qn = Neg(qh) p = MatMul(qn,")
        .replace("(wt, vh)", "(wt, vn)")
        .replace("o = MatMul", "vn = Neg(vh) o = MatMul"),
        f"{HEADS} {SCORES} {MIXED} oh = Transpose<perm = [0, 2, 1, 3]>(o) on = Neg(oh) y = Reshape(on, merged)",
    ],
    ids=["scores", "heads", "result"],
)
def test_what_is_not_attention_on_rows_is_left(body: str) -> None:
    assert_left(attention(body))


@pytest.mark.parametrize(
    ("before", "after"),
    [("p = MatMul(qh,", "n = Neg(qh) p = MatMul(n,"), ("o = MatMul(wt, vh)", "n = Neg(vh) o = MatMul(wt, n)")],
)
def test_one_of_three_may_be_computed_from_heads(before: str, after: str) -> None:
    """It is moved to rows, and of four Transposes two are left."""
    of = attention(PLAIN.replace(before, after))
    assert operators(of).count("Transpose") == 4
    moved = ["Reshape", "Transpose", "Neg", "Transpose", "Reshape"]
    assert_written(of, [*moved, ONE], given(), given(3, 1), given(3, 0), given(0, 3))


def test_a_mask_with_one_number_for_all_keys_is_left() -> None:
    of = attention(MASKED, f"{ROWS}, float[1,1,seq,1] mask")
    assert_left(of, given(mask=drawn(1, 1, 3, 1)))


def test_keys_that_heads_share_are_repeated_in_rows() -> None:
    inputs = given(k=drawn(2, 3, 8), v=drawn(2, 3, 8, seed=1))
    assert_written(grouped(), [*("Reshape", "Expand", "Reshape") * 2, ONE], inputs)


def test_a_causal_mask_is_added_as_any_other() -> None:
    body = MASKED.replace("Add(s0, mask)", "Add(s0, later)")
    constants = """int64[4] by_heads = {0, 0, 4, 4}, int64[3] merged = {0, 0, 16}, float half = {0.5},
        float[3,3] later = {0, -3e38, -3e38, 0, 0, -3e38, 0, 0, 0}"""
    of = model(body, constants, inputs=ROWS.replace("seq", "3"), outputs=OUT.replace("seq", "3"))
    fused = assert_written(of, ["Unsqueeze", ONE])
    assert "unidirectional" not in fused.graph.node(1).attributes


@pytest.mark.parametrize("scale", ["Mul(p, zero)", "Div(d, large)", "Mul(m, large)"])
def test_a_scale_that_no_attribute_holds_is_left(scale: str) -> None:
    large = "large = Constant<value_float = 1e30>()"
    body = PLAIN.replace("sc = Mul(p, half)", f"{large} d = Div(p, large) m = Mul(p, large) sc = {scale}")
    assert ONE not in operators(fuse(attention(body))[0])  # the operator takes 0 for no scale


@pytest.mark.parametrize(
    ("body", "after"),
    [(MASKED, []), (ZEROED, ["Pad", "ReduceMax", "Slice", "Squeeze", "Equal", "Where"])],
    ids=["masked", "zeroed"],
)
def test_a_mask_is_prepared_in_each_graph_that_reads_it(body: str, after: Sequence[str]) -> None:
    inner = {name: body.replace("y =", f"{name} =") for name in ("a", "b")}
    branches = ", ".join(
        f"{branch} = {branch} () => (float[batch,seq,16] {name}) {{ {inner[name]} }}"
        for branch, name in (("then_branch", "a"), ("else_branch", "b"))
    )
    of = attention(f"y = If<{branches}>(first)", f"{ROWS}, float[batch,1,1,seq] mask, bool first")
    mask = np.array([0, 0, LAST, 0, LAST, LAST], np.float32).reshape(2, 1, 1, 3)
    fused, _ = fuse(of)
    found = [[node.op_type for node in graph] for graph in fused.graph.subgraphs() if graph is not fused.graph]
    assert [sorted(each) for each in found] == [sorted(["Shape", "Concat", "Expand", ONE, *after])] * 2
    onnx.checker.check_model(ir.to_proto(fused))
    for first in (True, False):
        inputs = given(mask=mask, first=np.array(first))
        assert np.allclose(run(fused, inputs)[0], run(of, inputs)[0], atol=1e-6)


def test_what_a_branch_reads_of_the_graph_around_it_stays_there() -> None:
    before, end = PLAIN.removesuffix(MERGED), "(float[batch,seq,16] z)"
    merged = MERGED.replace("y =", "z =")
    branches = f"then_branch = a () => {end} {{ {merged} }}, else_branch = b () => {end} {{ z = Identity(q) }}"
    of = attention(f"{before} y = If<{branches}>(first)", f"{ROWS}, bool first")
    fused, report = fuse(of)
    assert report.problem is None
    assert ONE not in operators(fused)
    for first in (True, False):
        inputs = given(first=np.array(first))
        assert np.array_equal(run(fused, inputs)[0], run(of, inputs)[0])


def test_a_widened_mask_stands_before_all_that_read_it() -> None:
    mask = np.array([0, 0, LAST, 0, LAST, LAST], np.float32).reshape(2, 1, 1, 3)
    assert_written(side_by_side("batch,1,1,seq"), ["Shape", "Concat", "Expand", ONE, ONE], given(mask=mask))


def test_a_node_that_cannot_be_read_costs_its_attention_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(softmax: ir.Node, has_causal: bool) -> None:
        raise RuntimeError("malformed")

    monkeypatch.setenv("FFN_EXPORT_STRICT", "")
    monkeypatch.setattr(attention_calls, "_read", fails)
    _, report = fuse(attention(PLAIN))
    assert report.problem is None


def test_weights_that_are_read_elsewhere_are_left() -> None:
    of = attention(PLAIN, outputs=f"{OUT}, float[batch,4,seq,seq] wt")
    assert_left(of)


def test_a_function_of_the_model_keeps_its_name() -> None:
    of = model(
        PLAIN,
        "int64[4] by_heads = {0, 0, 4, 4}, int64[3] merged = {0, 0, 16}, float half = {0.5}",
        inputs=ROWS,
        outputs=OUT,
        domains=["com.microsoft"],
        functions=f'<domain: "com.microsoft", opset_import: ["" : 24]> {ONE} (a) => (b) {{ b = Neg(a) }}',
    )
    assert ONE not in operators(fuse(of)[0])


def test_an_opset_without_what_is_written_is_left() -> None:
    of = attention(PLAIN)
    of.opset_imports[""] = 14
    assert_left(of)


def test_it_can_be_left_out() -> None:
    of = attention(PLAIN)
    assert operators(fuse(of, forms=default_forms(get_target("ort-cpu")) - {"attention"})[0]) == operators(of)
    assert operators(rewrite(of, excluded=["y"]).model) == operators(of)


@pytest.mark.parametrize("body", [PLAIN, MASKED], ids=["plain", "masked"])
def test_other_targets_take_it_back(body: str) -> None:
    of = attention(body, f"{ROWS}, {MASK}" if body is MASKED else ROWS)
    fused = ir.from_proto(ir.to_proto(fuse(of)[0]))
    assert Counter(operators(fuse(fused, "portable")[0])) == Counter(operators(of))
    assert operators(fuse(fused, "ort-native")[0]) == ["Attention"]
    assert operators(fuse(fused)[0]) == [ONE]


@pytest.mark.parametrize("body", [PLAIN, MASKED], ids=["plain", "masked"])
def test_a_body_in_standard_operators(body: str) -> None:
    fused, _ = fuse(attention(body, f"{ROWS}, {MASK}" if body is MASKED else ROWS))
    assert list(assert_portable(fused).functions) == [("com.microsoft", ONE, "")]


def test_rows_whose_shape_the_graph_does_not_state() -> None:
    computed = PLAIN.replace("Reshape(q,", "Reshape(a,").replace("Reshape(k,", "Reshape(b,")
    of = attention(f"a = Neg(q) b = Abs(k) {computed}")
    fused = ir.from_proto(ir.to_proto(fuse(of)[0]))
    assert fused.graph.node(0).outputs[0].shape is None
    taken_back, _ = fuse(fused, "portable")
    assert all(not node.domain for node in taken_back.graph)
    assert np.allclose(run(taken_back, given())[0], run(of, given())[0], rtol=1e-5, atol=1e-6)
    assert operators(fuse(fused, "ort-native")[0]) == ["Neg", "Abs", "Attention"]
    assert list(assert_portable(fused).functions) == [("com.microsoft", ONE, "")]


@pytest.mark.parametrize("changed", [{"unidirectional": 1}, {"scale": 0.0}])
def test_a_node_that_the_body_does_not_describe_has_none(changed: dict[str, Any]) -> None:
    fused, _ = fuse(attention(PLAIN))
    node = fused.graph.node(0)
    node.attributes.update({name: ir.convenience.convert_attribute(name, value) for name, value in changed.items()})
    assert not portable.add(fused).functions
