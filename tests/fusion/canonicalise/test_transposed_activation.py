"""An activation between two transposes that undo each other is the activation alone."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.canonicalise.transposed_activation import ELEMENTWISE
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, cast, model


def sandwich(activation: str = "Relu", there: str = "[0,2,1]", back: str = "[0,2,1]") -> str:
    return f"t = Transpose<perm = {there}>(x) a = {activation}(t) y = Transpose<perm = {back}>(a)"


@pytest.mark.parametrize(("domain", "operator"), sorted(ELEMENTWISE - {("", "Identity")}))
def test_every_element_wise_operator(domain: str, operator: str) -> None:
    written = f"{domain}.{operator}" if domain else operator
    is_cast = operator == "Cast"
    y = "float16[batch,seq,8] y" if is_cast else "float[batch,seq,8] y"
    of = model(sandwich(written + "<to = 10>" * is_cast), outputs=y, domains=["com.microsoft"])
    fused, report = assert_fuses(of, [operator])
    assert fused.graph[0].domain == domain
    assert report.rules == {"transposed-activation": 1}
    assert fused.opset_imports == {"": 24, "com.microsoft": 1}


def test_float64_keeps_its_operator_and_loses_the_transposes() -> None:
    assert_fuses(cast(model(sandwich("Tanh")), ir.DataType.DOUBLE), ["Tanh"])


@pytest.mark.parametrize(
    "activation",
    ['Gelu<approximate = "tanh">', "Swish<alpha = 1.702>", "Elu<alpha = 0.5>", "LeakyRelu<alpha = 0.3>"],
)
def test_keeps_the_attributes(activation: str) -> None:
    before = model(sandwich(activation))
    fused, _ = assert_fuses(before, [activation.split("<")[0]])
    expected = {name: attribute.value for name, attribute in before.graph[1].attributes.items()}
    assert {name: attribute.value for name, attribute in fused.graph[0].attributes.items()} == expected


def test_perms_that_are_not_their_own_inverse() -> None:
    assert_fuses(model(sandwich("Relu", "[1,2,0]", "[2,0,1]")), ["Relu"])
    again = model(sandwich("Relu", "[1,2,0]", "[1,2,0]"), inputs="float[3,3,3] x", outputs="float[3,3,3] y")
    assert_refuses(again, None)


def test_a_gelu_in_pieces_is_raised_first() -> None:
    pieces = """
        t = Transpose<perm = [0,2,1]>(x) d = Div(t, root) e = Erf(d) g = Add(e, one) h = Mul(t, half) a = Mul(h, g)
        y = Transpose<perm = [0,2,1]>(a)
    """
    constants = "float half = {0.5}, float one = {1}, float root = {1.4142135623730951}"
    _, report = assert_fuses(model(pieces, constants, opset=20), ["Gelu"])
    assert report.rules == {"gelu": 1, "transposed-activation": 1}


def test_casts_beside_the_activation() -> None:
    body = """t = Transpose<perm = [0,2,1]>(x) c = Cast<to = 1>(t) a = Relu(c) d = Cast<to = 10>(a)
              y = Transpose<perm = [0,2,1]>(d)"""
    half = model(body, inputs="float16[batch,seq,8] x", outputs="float16[batch,seq,8] y")
    assert_fuses(half, ["Cast", "Relu", "Cast"])


@pytest.mark.parametrize("perms", [("[0,2,1]", "[0,2,1]"), ("[1,2,0]", "[2,0,1]")])
@pytest.mark.parametrize("add", ["Add(t, b)", "Add(b, t)"])
@pytest.mark.parametrize(
    "b",
    [
        "float b = {3}",
        "float[3] b = {1,2,3}",
        "float[4,1] b = {1,2,3,4}",
        "float[1,4,3] b = {1,2,3,4,5,6,7,8,9,10,11,12}",
    ],
)
def test_a_constant_that_is_added_is_turned_too(perms: tuple[str, str], add: str, b: str) -> None:
    there, back = perms
    shape = {"[0,2,1]": "[2,3,4]", "[1,2,0]": "[3,2,4]"}[there]
    body = f"t = Transpose<perm = {there}>(x) s = {add} a = Relu(s) y = Transpose<perm = {back}>(a)"
    assert_fuses(model(body, b, inputs=f"float{shape} x", outputs=f"float{shape} y"), ["Add", "Relu"])


def test_a_constant_with_more_axes_than_the_transposes() -> None:
    body = "t = Transpose<perm = [1,0]>(x) s = Add(t, b) y = Transpose<perm = [1,0]>(s)"
    of = model(body, "float[1,1,1] b = {3}", inputs="float[2,3] x", outputs="float[] y")
    fused, _ = fuse(of, "portable")
    assert len(fused.graph) == 3


@pytest.mark.parametrize(
    ("activation", "operators"),
    [
        ("s = Add(t, t) a = Relu(s)", "Add Relu"),
        ("r = Relu(t) a = Pow(r, two)", "Relu Pow"),
        ("s = Sigmoid(t) q = Mul(s, s) a = Mul(t, q)", "Sigmoid Mul Mul"),
        ("d = Mul(row, t) s = Softplus(d) h = Tanh(s) a = Mul(h, t)", "Mul Softplus Tanh Mul"),
        ("s = Sub(column, t) a = Div(s, two)", "Sub Div"),
    ],
)
@pytest.mark.parametrize("perms", [("[0,2,1]", "[0,2,1]"), ("[1,2,0]", "[2,0,1]")])
def test_a_value_that_is_read_twice_and_constants_in_any_place(
    activation: str, operators: str, perms: tuple[str, str]
) -> None:
    there, back = perms
    shape = {"[0,2,1]": "[2,3,4]", "[1,2,0]": "[3,2,4]"}[there]
    given = "float two = {2}, float[3] row = {1,2,3}, float[4,1] column = {1,2,3,4}"
    body = f"t = Transpose<perm = {there}>(x) {activation} y = Transpose<perm = {back}>(a)"
    of = model(body, given, inputs=f"float{shape} x", outputs=f"float{shape} y")
    assert_fuses(of, operators.split())


def test_a_product_with_another_value_stays() -> None:
    body = "t = Transpose<perm = [0,2,1]>(x) s = Sigmoid(t) a = Mul(s, {}) y = Transpose<perm = [0,2,1]>(a)"
    beside = "float[batch,seq,8] x, float[batch,8,seq] z"
    assert_refuses(model(body.format("z"), inputs=beside), None)
    of_two = body.format("u").replace("s =", "u = Transpose<perm = [0,2,1]>(z) s =")
    assert_refuses(model(of_two, inputs=beside.replace("8,seq", "seq,8")), None)


def test_a_value_read_twice_and_elsewhere() -> None:
    body = "t = Transpose<perm = [0,2,1]>(x) s = Relu(t) a = Mul(s, t) y = Transpose<perm = [0,2,1]>(a) z = Neg(s)"
    read = model(body, outputs="float[batch,seq,8] y, float[batch,8,seq] z")
    assert_refuses(read, "intermediate 's' is also read by Neg")


def test_transposes_that_do_not_undo_each_other() -> None:
    outputs = "float[seq,8,batch] y"
    assert_refuses(model(sandwich("Relu", "[0,2,1]", "[2,1,0]"), outputs=outputs), None)


@pytest.mark.parametrize(("there", "back"), [("[0,2,1]", "[1,0]"), ("[5,6]", "[5,6]"), ("[1,0]", "[0,2,1]")])
def test_perms_that_are_none(there: str, back: str) -> None:
    fused, report = fuse(model(sandwich("Relu", there, back)), "portable")
    assert len(fused.graph) == 3
    assert report.rules == {}


def test_an_operator_that_sees_axes() -> None:
    assert_refuses(model(sandwich("Softmax")), None)


def test_transposed_value_that_is_read_elsewhere() -> None:
    read = model(sandwich() + " z = Neg(t)", outputs="float[batch,seq,8] y, float[batch,8,seq] z")
    assert_refuses(read, "intermediate 't' is also read by Neg")
    written = model(sandwich(), outputs="float[batch,seq,8] y, float[batch,8,seq] a")
    assert_refuses(written, "intermediate 'a' is a graph output")
