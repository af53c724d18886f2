"""A row after a norm becomes the norm's own scale or bias, where that gives each reader what it read."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, model, operators

ONES = "float[8] o = {1,1,1,1,1,1,1,1}"
ROW = "{1.5,-1,0.25,2,1,0.5,3,-2}"
CONSTANTS = f"{ONES}, float[8] g = {ROW}, float[8] b = {ROW}, float one = {{1}}"
LAYER, RMS = "LayerNormalization", "RMSNormalization"


@pytest.mark.parametrize("norm", [LAYER, RMS])
@pytest.mark.parametrize("scale", ["Mul(n, g)", "Mul(g, n)"])
def test_a_scale(norm: str, scale: str) -> None:
    fused, report = assert_fuses(model(f"n = {norm}<epsilon = 0.25>(x, o) y = {scale}", CONSTANTS), [norm])
    assert report.rules == {"norm-scale": 1}
    assert fused.graph[0].attributes.get_float("epsilon") == 0.25
    assert [value.name for value in fused.graph[0].inputs if value is not None] == ["x", "g"]


@pytest.mark.parametrize("bias", ["Add(n, b)", "Add(b, n)"])
@pytest.mark.parametrize("scale", ["o", "g"])
def test_a_bias(bias: str, scale: str) -> None:
    _, report = assert_fuses(model(f"n = {LAYER}(x, {scale}) y = {bias}", CONSTANTS), [LAYER])
    assert report.rules == {"norm-bias": 1}


@pytest.mark.parametrize(
    "row", ["float r = {2}", "float[1] r = {2}", f"float[1,8] r = {ROW}", f"float[1,1,8] r = {ROW}"]
)
@pytest.mark.parametrize("take", ["y = Mul(n, r)", "y = Add(n, r)", "w = Add(r, one) y = Mul(n, w)"])
def test_rows_of_every_shape_are_written_as_the_operator_takes_them(row: str, take: str) -> None:
    fused, _ = assert_fuses(model(f"n = {LAYER}(x, o) {take}", f"{CONSTANTS}, {row}"), [LAYER])
    assert all(value is None or value.name == "x" or value.shape == (8,) for value in fused.graph[0].inputs)


def test_a_row_that_is_an_input() -> None:
    inputs = "float[batch,seq,8] x, float[8] r"
    assert_fuses(model(f"n = {RMS}(x, o) y = Mul(n, r)", CONSTANTS, inputs=inputs), [RMS])


@pytest.mark.parametrize(
    ("row", "take"),
    [
        ("float[1,1,1,8] r = " + ROW, "Mul(n, r)"),  # one axis more
        ("float[3,1] r = {1,2,3}", "Mul(n, r)"),  # another number for each token
        ("float[3,8] r = {" + ",".join(map(str, range(24))) + "}", "Add(n, r)"),
        ("float[2,1,8] r = {" + ",".join(map(str, range(16))) + "}", "Add(n, r)"),
    ],
)
def test_what_is_no_row_stays(row: str, take: str) -> None:
    y = "float[1,2,3,8] y" if "[1,1,1,8]" in row else "float[2,3,8] y"
    of = model(f"n = {LAYER}(x, o) y = {take}", f"{CONSTANTS}, {row}", inputs="float[2,3,8] x", outputs=y)
    assert_fuses(of, [LAYER, take.split("(")[0]])


def test_a_scale_that_differs_from_token_to_token_stays() -> None:
    inputs = "float[batch,seq,8] x, float[batch,1,8] r"
    assert_fuses(model(f"n = {LAYER}(x, o) y = Mul(n, r)", CONSTANTS, inputs=inputs), [LAYER, "Mul"])


@pytest.mark.parametrize(
    "body",
    [
        f"n = {LAYER}(x, g) y = Mul(n, b)",  # it has a scale
        f"n = {LAYER}(x, o, b) y = Mul(n, g)",  # the bias would be scaled too
        f"n = {LAYER}(x, o, b) y = Add(n, g)",  # it has a bias
        f"n = {RMS}(x, o) y = Add(n, b)",  # the operator has no bias
        f"n = {LAYER}(x, o) y = Sub(n, b)",
    ],
)
def test_what_the_operator_has_no_room_for_stays(body: str) -> None:
    assert_refuses(model(body, CONSTANTS), None)


def test_a_scale_that_the_caller_may_override_is_not_known_to_be_ones() -> None:
    inputs = "float[2,8] x, float[8] o = {1,1,1,1,1,1,1,1}"
    of = model(f"n = {RMS}(x, o) y = Mul(n, g)", f"float[8] g = {ROW}", inputs=inputs, outputs="float[2,8] y")
    assert_refuses(of, None)


def test_several_readers_that_each_have_a_row() -> None:
    of = model(f"n = {LAYER}(x, o) u = Mul(n, g) v = Add(n, b) y = Sub(u, v)", CONSTANTS)
    assert_fuses(of, [LAYER, LAYER, "Sub"])


def test_a_reader_without_a_row() -> None:
    of = model(f"n = {LAYER}(x, o) u = Mul(n, g) y = Add(u, n)", CONSTANTS)
    report = assert_refuses(of, "the norm without its scale is also read elsewhere")
    assert report.sites[-1].kind == "norm"


def test_a_reader_in_a_body() -> None:
    branches = """z = If (c) <then_branch = t () => (float[2,8] a) { a = Neg(n) },
                                else_branch = e () => (float[2,8] q) { q = Neg(x) }>"""
    of = model(
        f"n = {LAYER}(x, o) y = Mul(n, g) {branches}",
        CONSTANTS,
        inputs="float[2,8] x, bool c",
        outputs="float[2,8] y, float[2,8] z",
    )
    assert_refuses(of, "also read elsewhere")


def test_a_row_inside_of_a_body() -> None:
    branches = """z = If (c) <then_branch = t () => (float[2,8] a) { a = Mul(n, g) },
                                else_branch = e () => (float[2,8] q) { q = Neg(x) }>"""
    of = model(f"n = {LAYER}(x, o) {branches}", CONSTANTS, inputs="float[2,8] x, bool c", outputs="float[2,8] z")
    assert_refuses(of, None)


@pytest.mark.parametrize(("take", "part"), [("Mul(n, g)", "scale"), ("Add(n, b)", "bias")])
def test_a_norm_that_is_an_output(take: str, part: str) -> None:
    of = model(f"n = {LAYER}(x, o) y = {take}", CONSTANTS, outputs="float[batch,seq,8] y, float[batch,seq,8] n")
    assert_refuses(of, f"the norm without its {part} is a graph output")


def test_statistics_that_are_read_stay_with_their_norm() -> None:
    outputs = "float[batch,seq,8] y, float[batch,seq,1] m"
    assert_fuses(model(f"n, m = {LAYER}(x, o) y = Mul(n, g)", CONSTANTS, outputs=outputs), [LAYER])
    read_twice = f"n, m = {LAYER}(x, o) c = Mul(n, g) d = Add(n, g) y = Add(c, d)"
    assert_refuses(model(read_twice, CONSTANTS, outputs=outputs), None)


def test_a_norm_times_itself_has_no_scale() -> None:
    of = model(f"n = {RMS}(x, o) y = Mul(n, n)", CONSTANTS, inputs="float[8] x", outputs="float[8] y")
    assert_refuses(of, "also read elsewhere")


def test_a_width_that_is_not_known() -> None:
    of = model(f"n = {LAYER}(x, o) y = Mul(n, g)", CONSTANTS, inputs="float[b,w] x", outputs="float[b,w] y")
    fused, _ = fuse(of, "portable")
    assert operators(fused) == [LAYER, "Mul"]


def test_several_normalised_axes() -> None:
    constants = f"float[2,4] o = {{1,1,1,1,1,1,1,1}}, float[2,4] g = {ROW}, float[4] r = {{1,2,3,4}}"
    x, y = "float[n,2,4] x", "float[n,2,4] y"
    assert_fuses(model(f"n = {LAYER}<axis = 1>(x, o) y = Mul(n, g)", constants, inputs=x, outputs=y), [LAYER])
    assert_fuses(model(f"n = {LAYER}<axis = -2>(x, o) y = Mul(n, r)", constants, inputs=x, outputs=y), [LAYER, "Mul"])


def test_float16() -> None:
    of = cast(model(f"n = {LAYER}(x, o) s = Mul(n, g) y = Add(s, b)", CONSTANTS), ir.DataType.FLOAT16)
    fused, _ = assert_fuses(of, [LAYER])
    assert_same_function(of, fused)
