"""What a model has to do, counted off its graph, and what the machine can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source
from ffn_export.fusion.forms.by_rows import row_chunks
from ffn_export.fusion.pipeline import fuse
from ffn_export.latency import ceilings as measured_ceilings
from ffn_export.latency.ceilings import ceilings
from ffn_export.latency.result import Ceilings, Work
from ffn_export.latency.work import work
from ffn_export.quantization.quantize import quantize
from tests.fusion.graphs import model

SIZES = {"batch": 2, "seq": 3}


def constants(*shapes: tuple[str, int, int]) -> str:
    return ", ".join(f"float[{a},{b}] {n} = {{{','.join(['1'] * (a * b))}}}" for n, a, b in shapes)


FEED_FORWARD = constants(("w", 8, 16), ("v", 16, 8))
IN_OUT = 2 * 4 * 2 * 3 * 8
WEIGHTS = 2 * 4 * 8 * 16
ONCE = 2 * 2 * 3 * 8 * 8


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu", "ort-cuda"])
def test_a_preset_costs_the_same_in_every_form(target: str, fused_file: Callable[..., Path]) -> None:
    counted = work(onnx_file.load(fused_file("d2l-ffn", target)), {"batch": 5, "seq": 7})
    assert counted is not None
    assert counted.operations == 2 * 2 * 35 * 4 * 8
    parameters = 4 * 8 + 8 + 8 * 4 + 4
    assert 0 <= counted.bytes - 4 * (parameters + 2 * 35 * 4) <= 64  # ort has shapes for its reshapes


@pytest.mark.slow
@pytest.mark.parametrize("seq", [1, 5, 6, 40])
def test_chunks_do_as_much_as_the_whole(
    seq: int, source: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_chunks, "TOKENS", 3)
    whole = export_source(source("d2l-ffn"))
    chunked, _ = fuse(whole, "ort-cpu", forms=[row_chunks.NAME])
    assert "Loop" in {node.op_type for node in chunked.graph}
    counted, expected = work(chunked, {"batch": 1, "seq": seq}), work(whole, {"batch": 1, "seq": seq})
    assert counted is not None
    assert expected is not None
    # The last chunk ends with the last row, so it may have rows of the one before it: fewer than there are chunks.
    assert expected.operations <= counted.operations <= expected.operations * (1 + max(seq // 3, 1) / seq)


def test_products_are_counted_and_nothing_else() -> None:
    graph = model("m = MatMul(x, w) h = Relu(m) y = MatMul(h, v)", FEED_FORWARD)
    assert work(graph, SIZES) == Work(2 * 2 * 6 * 8 * 16, WEIGHTS + IN_OUT)
    assert work(graph, {"batch": 0, "seq": 3}) == Work(0, WEIGHTS)


def test_a_product_of_constants_is_computed_once_and_constants_are_weights_wherever_they_are() -> None:
    """A runtime multiplies them when it loads the model."""
    constants = "float[8,4] w = {" + ",".join(["0.5"] * 32) + "}, float[4,8] u = {" + ",".join(["0.5"] * 32) + "}"
    body = "v = MatMul(w, u) c = Constant<value = float[8] {1,1,1,1,1,1,1,1}>() h = MatMul(x, v) y = Add(h, c)"
    found = work(model(body, constants), {"batch": 1, "seq": 1})
    assert found is not None
    assert found.operations == 2 * 8 * 8
    assert found.bytes == 4 * (32 + 32 + 8 + 8 + 8)


def test_a_quantized_product_does_as_much() -> None:
    graph = model("m = MatMul(x, w) h = Relu(m) y = MatMul(h, v)", FEED_FORWARD)
    plain, counted = work(graph, SIZES), work(quantize(graph)[0], SIZES)
    assert plain is not None
    assert counted is not None
    assert counted.operations == plain.operations


@pytest.mark.slow
def test_a_function_does_what_its_nodes_do(source: Callable[[str], Source]) -> None:
    whole = export_source(source("d2l-ffn"))
    outlined, _ = fuse(whole, "ort-native")
    assert len(list(outlined.graph)) == 1
    counted, expected = work(outlined, SIZES), work(whole, SIZES)
    assert counted is not None
    assert expected is not None
    assert counted.operations == expected.operations > 0


def test_two_inputs_that_are_multiplied() -> None:
    graph = model("t = Transpose <perm = [0, 2, 1]> (x) p = MatMul(x, t) y = MatMul(p, x)")
    assert work(graph, SIZES) == Work(2 * 2 * 2 * 3 * 3 * 8, IN_OUT)


def test_a_convolution_and_a_turned_product() -> None:
    kernel = constants(("k", 4, 24)).replace("float[4,24]", "float[4,8,3]")
    graph = model("y = Conv (x, k)", kernel, inputs="float[batch,8,seq] x", outputs="float[batch,4,end] y")
    counted = work(graph, {"batch": 1, "seq": 10, "end": 8})
    assert counted is not None
    assert counted.operations == 2 * 4 * 8 * 8 * 3
    body, rows = "y = Gemm <transA = 1> (x, w)", "float[6,rows] x"
    turned = model(body, constants(("w", 6, 5)), inputs=rows, outputs="float[rows,5] y")
    assert work(turned, {"rows": 7}) == Work(2 * 7 * 5 * 6, 4 * (30 + 42 + 35))


def test_of_a_table_the_rows_count_that_are_looked_up() -> None:
    body, ids = "e = Gather(table, ids) y = MatMul(e, w)", "int64[rows] ids"
    table, w = ("table", 1000, 8), ("w", 8, 5)
    graph = model(body, constants(table, w), inputs=ids, outputs="float[rows,5] y")
    assert work(graph, {"rows": 7}) == Work(2 * 7 * 8 * 5, 4 * (7 * 8 + 40 + 35) + 8 * 7)
    body = "e = Gather(table, ids) t = Transpose(table) y = MatMul(e, t)"
    tied = model(body, constants(table), inputs=ids, outputs="float[rows,1000] y")
    counted = work(tied, {"rows": 7})
    assert counted is not None
    assert counted.bytes == 4 * (1000 * 8 + 7 * 1000) + 8 * 7


def test_nodes_in_any_order_are_counted() -> None:
    graph = model("y = MatMul(h, v) h = MatMul(x, w)", FEED_FORWARD)
    assert work(graph, SIZES) == work(model("h = MatMul(x, w) y = MatMul(h, v)", FEED_FORWARD), SIZES) is not None


def test_matrices_of_a_batch_are_broadcast() -> None:
    graph = model("y = MatMul(a, b)", inputs="float[2,1,4,8] a, float[1,3,8,5] b", outputs="float[2,3,4,5] y")
    counted = work(graph, {})
    assert counted is not None
    assert counted.operations == 2 * (2 * 3) * 4 * 5 * 8


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        ('y = Einsum <equation = "bsd,de->bse"> (x, u)', ""),
        # A call that leaves out an input which the body reads is not inlined; nor is a convolution.
        (
            "y = own.P (x, u, )",
            """<domain: "own", opset_import: ["" : 24]> P (a, b, c) => (y) { y = Gemm (a, b, c) }""",
        ),
        (
            "y = own.Outer (x, u)",
            """<domain: "own", opset_import: ["" : 24, "own" : 1]> Outer (a, b) => (y) { y = own.Inner (a, b) }
            <domain: "own", opset_import: ["" : 24]> Inner (a, b) => (y) { y = Conv (a, b) }""",
        ),
    ],
    ids=["Einsum", "a partial call", "a function in a function"],
)
def test_products_that_nobody_counts_are_not_none(body: str, functions: str) -> None:
    graph = model(body, constants(("u", 8, 8)), domains=("own",), functions=functions)
    assert work(graph, SIZES) is None


def test_what_is_not_known_is_not_guessed() -> None:
    graph = model("m = MatMul(x, w) h = Relu(m) y = MatMul(h, v)", FEED_FORWARD)
    assert work(graph, {"batch": 2}) is None
    branches = ", ".join(
        f"{name} = {name} () => (float[batch,seq,16] p{name}) {{ p{name} = MatMul(x, w) }}"
        for name in ("then_branch", "else_branch")
    )
    inside = model(
        f"s = ReduceSum <keepdims = 0> (x) z = Greater(s, s) y = If (z) <{branches}>",
        constants(("w", 8, 16)),
        outputs="float[batch,seq,16] y",
    )
    assert work(inside, SIZES) is None


@pytest.mark.parametrize(
    ("times", "going", "expected"),
    [
        ("t = Shape <start = 1, end = 2> (x) n = Squeeze (t)", "on = Identity (c)", 3 * ONCE),
        ("n = Constant <value_int = 4> ()", "on = Identity (c)", 4 * ONCE),
        ("n = Constant <value_int = 4> ()", "on = Constant <value = bool {1}> ()", 4 * ONCE),
        ("n = Constant <value_int = 0> ()", "s = ReduceSum <keepdims = 0> (m) on = Greater (s, s)", 0),
        ("n = Constant <value_int = 4> ()", "s = ReduceSum <keepdims = 0> (m) on = Greater (s, s)", None),
        ("s = ReduceSum <keepdims = 0> (x) n = Cast <to = 7> (s)", "on = Identity (c)", None),
    ],
    ids=["of a size", "of a number", "always on", "may stop at once", "may stop", "of a sum"],
)
def test_a_loop_does_as_often_what_is_in_it(times: str, going: str, expected: int | None) -> None:
    body = f"body = each (int64 i, bool c) => (bool on, float[2,3,8] m) {{ m = MatMul (x, u) {going} }}"
    graph = model(
        f"{times} all = Loop (n, ) <{body}> y = ReduceSum <keepdims = 0> (all, first)",
        f"{constants(('u', 8, 8))}, int64[1] first = {{0}}",
    )
    counted = work(graph, SIZES)
    assert (None if counted is None else counted.operations) == expected


def test_the_limit_is_the_longer_of_both() -> None:
    machine = Ceilings(operations=100.0, bytes=10.0)
    assert machine.seconds(Work(1000, 1)) == 10.0
    assert machine.seconds(Work(1, 1000)) == 100.0


@pytest.mark.slow
def test_both_limits_of_the_machine_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    anew = measured_ceilings._seconds.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setattr(measured_ceilings, "_seconds", anew)
    here = ceilings(1, 8 * 2**20)
    assert here.operations > 0
    assert here.bytes > 0
    assert ceilings(1, 0).operations >= here.operations  # what was reached once stays the limit


@pytest.mark.parametrize(("reached", "times"), [(0.0, 1), (1.5, 2), (9.0, 4)])
def test_a_limit_that_a_model_was_faster_than_is_measured_again(
    reached: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time it is found undisturbed; what no processor reaches, as in fewer bits, is given up."""
    found = [Ceilings(1.0, 1.0), *[Ceilings(2.0, 1.0)] * 3]
    asked = iter(found)
    monkeypatch.setattr("ffn_export.latency.ceilings._measured", lambda threads, weights: next(asked))
    assert ceilings(2, 0, reached) == found[times - 1]
    assert len(list(asked)) == 4 - times
