"""Feed-forwards as one node: its inputs and attributes, the norm and the residual around it, and what is left."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.core.activations import TABLE
from ffn_export.fusion.functions.contract import DOMAIN
from ffn_export.fusion.functions.outline import outlined
from ffn_export.fusion.pipeline import fuse
from tests.fusion.conftest import SOME_EXPORTS, Exported
from tests.fusion.functions.nodes import assert_bit_equal, assert_outlines, attributes, graph, names, nodes
from tests.fusion.graphs import assert_interface_kept, cast, feeds, model, operators, run
from tests.fusion.test_presets import EXPECTED

WEIGHTS = {
    "w": (8, 16),
    "b": (16,),
    "v": (16, 8),
    "c": (8,),
    "g": (8, 16),
    "d": (16,),
    "u": (8, 32),
    "s": (8,),
    "t": (8,),
}
FIRST = "m = MatMul(x, w) a = Add(m, b) h = Gelu(a) n = MatMul(h, v)"
GELU = f"{FIRST} y = Add(c, n)"
TANH = GELU.replace("Gelu(a)", 'Gelu <approximate: string = "tanh"> (a)')
GATED = "p = MatMul(x, w) sg = Sigmoid(p) h = Mul(p, sg) q = MatMul(x, g) k = Mul(h, q) y = MatMul(k, v)"
NORM = "LayerNormalization<axis = -1, epsilon = 1e-5>"
RMS = "RMSNormalization<axis = -1, epsilon = 1e-5>"
TWO = "float[batch,seq,8] y, float[batch,seq,8] z"


def test_a_plain_one() -> None:
    (node,) = nodes(assert_outlines(graph(GELU, WEIGHTS), ["FeedForward"]))
    assert (node.domain, node.op_type, node.overload) == (DOMAIN, "FeedForward", "")
    assert names(node) == ["x", "w", "b", "v", "c"]
    assert attributes(node) == {"activation": "gelu"}
    assert node.outputs[0].name == "y"


@pytest.mark.parametrize("gating", ["Mul(h, q)", "Mul(q, h)"])
def test_a_gated_one(gating: str) -> None:
    (node,) = nodes(assert_outlines(graph(GATED.replace("Mul(h, q)", gating), WEIGHTS), ["FeedForward"], exact=False))
    assert names(node) == ["x", "w", None, "v", None, "g"]
    assert attributes(node) == {"activation": "silu", "alpha": 1.0}


def test_a_gated_one_with_biases() -> None:
    body = GATED.replace("p = MatMul(x, w)", "o = MatMul(x, w) p = Add(o, b)").replace(
        "q = MatMul(x, g)", "r = MatMul(x, g) q = Add(r, d)"
    )
    (node,) = nodes(assert_outlines(graph(body, WEIGHTS), ["FeedForward"], exact=False))
    assert names(node) == ["x", "w", "b", "v", None, "g", "d"]


@pytest.mark.parametrize(("first", "packed"), [("l", 1), ("r", 2)])
@pytest.mark.parametrize("by", ["Split", "Slice"])
def test_a_packed_one(first: str, packed: int, by: str) -> None:
    split = "l, r = Split <axis: int = -1, num_outputs: int = 2> (m)"
    if by == "Slice":
        split = "l = Slice(m, zero, half, last) r = Slice(m, half, all, last)"
    other = {"l": "r", "r": "l"}[first]
    bounds = "int64[1] zero = {0}, int64[1] half = {16}, int64[1] all = {32}, int64[1] last = {2}"
    of = graph(
        f"m = MatMul(x, u) {split} h = Gelu({first}) k = Mul(h, {other}) y = MatMul(k, v)", WEIGHTS, constants=bounds
    )
    (node,) = nodes(assert_outlines(of, ["FeedForward"]))
    assert names(node) == ["x", "u", None, "v"]
    assert attributes(node) == {"activation": "gelu", "packed": packed}


BOUNDS = (
    "int64[1] last = {2}, int64[1] back = {-1}, int64[1] none = {-100}, int64[1] four = {4}, int64[1] twenty = {20}, "
    "int64[1] zero = {0}, int64[1] eight = {8}"
)
ONE = "p = MatMul(x, w) h = Relu(p) "
TWO_HALVES = "m = MatMul(x, u) l, r = Split <axis: int = -1, num_outputs: int = 2> (m) "


def turned(value: str) -> str:
    """Return the lines that turn the order of a value's last axis."""
    return f"turned = Slice({value}, back, none, last, back)"


@pytest.mark.parametrize(
    "body",
    [
        f"p = MatMul(x, w) {turned('p')} h = Relu(turned) y = MatMul(h, v)",
        f"{ONE} {turned('h')} y = MatMul(turned, v)",
        f"{ONE} part = Slice(h, zero, eight, last) y = MatMul(part, square)",
        f"{ONE} q = MatMul(x, g) {turned('q')} k = Mul(h, turned) y = MatMul(k, v)",
        f"{ONE} q = MatMul(x, u) part = Slice(q, four, twenty, last) k = Mul(h, part) y = MatMul(k, v)",
        f"{ONE} q = MatMul(x, g) k = Mul(h, q) {turned('k')} y = MatMul(turned, v)",
        f"{TWO_HALVES} h = Gelu(l) {turned('r')} k = Mul(h, turned) y = MatMul(k, v)",
        f"{TWO_HALVES} h = Gelu(l) {turned('h')} k = Mul(turned, r) y = MatMul(k, v)",
        f"{TWO_HALVES} h = Gelu(l) k = Mul(h, r) {turned('k')} y = MatMul(turned, v)",
    ],
)
def test_a_hidden_layer_that_is_cut_or_turned_stays(body: str) -> None:
    """A node has words for the halves of a packed product, and for no other part of a value."""
    of = graph(body, {**WEIGHTS, "square": (8, 8)}, constants=BOUNDS)
    has_two_results = "q = " in body or "l, r = " in body  # of the first node
    assert_outlines(of, ["Linear", "Linear_2" if has_two_results else "Linear"])


@pytest.mark.parametrize("body", [GELU, TANH, GELU.replace("Gelu", "Relu")])
def test_matrices(body: str) -> None:
    assert_outlines(graph(body, WEIGHTS, inputs="float[rows,8] x", outputs="float[rows,8] y"), ["FeedForward"])


def test_transposed_weights() -> None:
    body = "a = Gemm <transB: int = 1> (x, v, b) h = Relu(a) y = Gemm <transB: int = 1> (h, w, c)"
    of = graph(body, WEIGHTS, inputs="float[rows,8] x", outputs="float[rows,8] y")
    (node,) = nodes(assert_outlines(of, ["FeedForward"], exact=False))
    assert names(node) == ["x", "v", "b", "w", "c"]
    assert attributes(node) == {"activation": "relu", "transposed": 1}


@pytest.mark.parametrize("name", [name for name, each in TABLE.items() if each.outlined])
def test_the_body_of_each_activation(name: str) -> None:
    operator = next(iter(TABLE[name].operators), "")
    spelled = {
        "gelu_tanh": 'h = Gelu <approximate: string = "tanh"> (a)',
        "quick_gelu": "f = Mul(a, slope) e = Sigmoid(f) h = Mul(a, e)",
        "silu": "e = Sigmoid(a) h = Mul(a, e)",
        "relu2": "e = Relu(a) h = Mul(e, e)",
        "elu": "h = Elu<alpha = 0.7>(a)",
        "leaky_relu": "h = LeakyRelu<alpha = 0.2>(a)",
    }.get(name, f"h = {operator}(a)")
    of = graph(GELU.replace("h = Gelu(a)", spelled), WEIGHTS, constants="float slope = {1.702}")
    (node,) = nodes(assert_outlines(of, ["FeedForward"], exact=False))
    assert attributes(node)["activation"] == name
    assert ("alpha" in attributes(node)) == (TABLE[name].alpha is not None)


@pytest.mark.parametrize("norm", ["", "post_layer", "post_rms"])
def test_residual_and_norm_behind(norm: str) -> None:
    ends = {"": "y = Identity(r)", "post_layer": f"y = {NORM}(r, s, t)", "post_rms": f"y = {RMS}(r, s)"}[norm]
    of = graph(f"{FIRST} e = Add(n, c) r = Add(x, e) {ends}", WEIGHTS)
    (node,) = nodes(assert_outlines(of, ["FeedForward"]))
    rows = {"": [], "post_layer": ["s", "t"], "post_rms": ["s"]}[norm]
    assert names(node) == ["x", "w", "b", "v", "c", None, None, "x", *rows]
    assert attributes(node).get("norm", "") == norm


@pytest.mark.parametrize(("norm", "rows"), [(NORM, ["s", "t"]), (RMS, ["s"])])
def test_the_norm_before(norm: str, rows: list[str]) -> None:
    body = f"k0 = {norm}(x, {', '.join(rows)}) {FIRST.replace('(x, w)', '(k0, w)')} y = Add(n, x)"
    (node,) = nodes(assert_outlines(graph(body, WEIGHTS), ["FeedForward"]))
    assert names(node) == ["x", "w", "b", "v", None, None, None, "x", *rows]
    assert attributes(node)["norm"] == ("pre_layer" if norm == NORM else "pre_rms")


@pytest.mark.parametrize(
    ("body", "outputs", "kept"),
    [
        (f"{FIRST} y = Add(n, x) z = Neg(n)", TWO, ["FeedForward", "Add", "Neg"]),
        (f"{FIRST} r = Add(n, x) y = {NORM}(r, s, t) z = Neg(r)", TWO, ["FeedForward", "LayerNormalization", "Neg"]),
        (
            f"k0 = {RMS}(x, s) {FIRST.replace('(x, w)', '(k0, w)')} y = Add(n, x) z = Neg(k0)",
            TWO,
            ["RMSNormalization", "FeedForward", "Neg"],
        ),
    ],
    ids=["the product is read", "the sum is read", "the norm is read"],
)
def test_what_is_read_elsewhere_stays_outside(body: str, outputs: str, kept: list[str]) -> None:
    assert operators(assert_outlines(graph(body, WEIGHTS, outputs=outputs), ["FeedForward"])) == kept


def test_layers_of_one_structure_share_a_function() -> None:
    second = GELU.replace("y =", "z =").replace("(x, w)", "(y, w)")
    for name in "mahn":
        second = second.replace(f"{name} =", f"{name}2 =").replace(f"({name}", f"({name}2")
    second = second.replace("Add(c, n)", "Add(c, n2)")
    one = assert_outlines(graph(f"{GELU} {second}", WEIGHTS, outputs="float[batch,seq,8] z"), ["FeedForward"] * 2)
    assert list(one.functions) == [(DOMAIN, "FeedForward", "")]


def test_structures_have_names_of_their_own() -> None:
    of = graph(f"{GELU} m2 = MatMul(y, w) h2 = Relu(m2) z = MatMul(h2, v)", WEIGHTS, outputs="float[batch,seq,8] z")
    one = assert_outlines(of, ["FeedForward", "FeedForward_2"])
    assert_bit_equal(of, one)
    (expected,) = run(of, feeds(of))
    (actual,) = np.asarray(ReferenceEvaluator(ir.to_proto(one)).run(None, feeds(of)))
    assert np.abs(actual - expected).max() < 1e-5 * np.abs(expected).max()


def test_inside_a_subgraph() -> None:
    body = f"""y = If (condition) <then_branch = yes () => (float[batch,seq,8] y1) {{ {GELU.replace("y =", "y1 =")} }},
        else_branch = no () => (float[batch,seq,8] e) {{ e = Neg(x) }}>"""
    assert_outlines(graph(body, WEIGHTS, inputs="float[batch,seq,8] x, bool condition"), ["FeedForward"])


@pytest.mark.parametrize(
    ("body", "outputs", "reason"),
    [
        (GELU, "float[batch,seq,8] y, float[batch,seq,16] h", "intermediate 'h' is a graph output"),
        (f"{GELU} z = Neg(m)", "float[batch,seq,8] y, float[batch,seq,16] z", "intermediate 'm' is also read by Neg"),
        (GELU.replace("Gelu(a)", "Sin(a)"), "float[batch,seq,8] y", "none of the contract"),
        (
            GELU.replace("a = Add(m, b) h = Gelu(a)", "a = Gelu(m) h = Add(a, b)"),
            "float[batch,seq,8] y",
            "none of the contract",
        ),
        (
            "p = MatMul(x, w) q = MatMul(x, g) k = Mul(p, q) y = MatMul(k, v)",
            "float[batch,seq,8] y",
            "none of the contract",
        ),
        (f"f = Transpose(tv) {GELU.replace('(h, v)', '(h, f)')}", "float[batch,seq,8] y", "is computed or fed"),
    ],
    ids=["an output", "read", "activation", "bias behind", "no activation", "turned by a node"],
)
def test_its_products_are_single_nodes_where_it_is_none(body: str, outputs: str, reason: str) -> None:
    of = graph(body, {**WEIGHTS, "tv": (8, 16)}, outputs=outputs)
    one = assert_outlines(of, [node.op_type for node in nodes(outlined(of).model)])
    assert {node.op_type.partition("_")[0] for node in nodes(one)} == {"Linear"}
    assert reason in next(iter(outlined(of).left.values()))


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.DOUBLE])
def test_other_dtypes_are_left(dtype: ir.DataType) -> None:
    of = cast(graph(GELU.replace("Gelu", "Relu"), WEIGHTS), dtype)
    made = outlined(of)
    assert nodes(made.model) == []
    assert list(made.left.values()) == [f"the dtype of 'x' is {dtype.name.lower()}, kernels are for float32"]


def test_weights_that_are_fed_are_left() -> None:
    fed = graph(
        GELU,
        {name: shape for name, shape in WEIGHTS.items() if name != "w"},
        inputs="float[batch,seq,8] x, float[8,16] w",
    )
    assert operators(assert_outlines(fed, ["Linear"])) == ["MatMul", "Add", "Gelu", "Linear"]


def test_a_model_without_one_is_as_it_was() -> None:
    of = model("y = Neg(x)")
    assert ir.to_proto(outlined(of).model) == ir.to_proto(of)


@pytest.mark.slow
@pytest.mark.parametrize("exported", SOME_EXPORTS, indirect=True)
def test_presets(exported: Exported) -> None:
    one, report = fuse(exported.model, "ort-native")
    is_whole = "MatMul" in EXPECTED["ort-cpu"][exported.preset].split()
    assert report.outlined == ({"FeedForward": 1} if is_whole else {})
    assert_interface_kept(exported.model, one)
    assert len(one.graph) <= 3
    (expected,), (actual,) = run(exported.model, feeds(exported.model)), run(one, feeds(exported.model))
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()
    again, _ = fuse(one, "ort-cpu", forms=())
    assert sorted(operators(again)) == sorted(operators(fuse(exported.model, "ort-cpu", forms=())[0]))
