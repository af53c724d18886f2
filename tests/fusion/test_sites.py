"""Feed-forwards, norms and residual + norm pairs are found in whatever form they are in."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion import sites
from ffn_export.fusion.sites import FoundSite
from tests.fusion.graphs import cast, model

WEIGHTS = ", ".join(
    f"float[{shape}] {name} = {{{','.join(['0.1'] * size)}}}"
    for name, shape, size in [
        ("w1", "8,16", 128),
        ("w2", "16,8", 128),
        ("wu", "8,16", 128),
        ("b1", "16", 16),
        ("b2", "8", 8),
        ("w3", "8,32", 256),
        ("w1t", "16,8", 128),
    ]
)


def found(body: str, constants: str = WEIGHTS, **options: str) -> list[FoundSite]:
    return sites.find(model(body, constants, **options))  # type: ignore[arg-type]


def feed_forward(body: str, **options: str) -> FoundSite:
    (site,) = found(body, **options)
    assert site.kind == "feed_forward"
    return site


def test_a_formula_is_read_with_what_belongs_to_it() -> None:
    both = "h = MatMul(x, w1) u = MatMul(x, wu)"
    two = f"{WEIGHTS}, float two = {{2}}"
    (apart,) = found(f"{both} a = Relu(h) b = Pow(u, two) g = Mul(b, a) y = MatMul(g, w2)", two)
    (squared,) = found(f"{both} a = Relu(h) b = Pow(a, two) g = Mul(b, u) y = MatMul(g, w2)", two)
    assert (apart.activation, squared.activation) == (None, "relu2")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("h = MatMul(x, w1) s = Add(h, b) r = Add(s, two) a = Relu(r)", "relu"),  # a bias in two parts
        ("h = MatMul(x, w1) r = Reshape(h, rows) s = Add(b, r) a = Relu(s)", "relu"),
        ("h = MatMul(x, w1) s = Relu(h) a = Add(s, two)", None),
        ("h = MatMul(x, w1) s = Relu(h) a = Add(b, s)", None),
        ('h = com.microsoft.FusedGemm<activation = "Relu">(x, w1) a = Add(h, two)', None),
        ("h = MatMul(x, w1) s = Add(h, two) t = Sigmoid(s) a = Mul(s, t)", "silu"),
        ("h = MatMul(x, w1) s = Add(h, two) t = Sigmoid(s) a = Mul(h, t)", None),
        ("h = MatMul(x, w1) t = Sigmoid(h) s = Add(t, two) a = Mul(h, s)", None),
    ],
)
def test_what_is_added_belongs_to_the_activation_unless_it_is_a_bias(body: str, name: str | None) -> None:
    more = f"{WEIGHTS}, float two = {{2}}, int64[2] rows = {{-1, 16}}, float[16] b = {{{', '.join('1' * 16)}}}"
    (site,) = found(f"{body} y = MatMul(a, w2)", more)
    assert site.activation == name
    assert name or site.decomposed


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("Relu", "relu"),
        ("Tanh", "tanh"),
        ("Elu", "elu"),
        ("Mish", "mish"),
        ("HardSwish", "hardswish"),
        ("LeakyRelu", "leaky_relu"),
        ("Gelu", "gelu"),
        ('Gelu<approximate = "tanh">', "gelu_tanh"),
        ("Swish", "silu"),
        ("Swish<alpha = 1.702>", "quick_gelu"),
        ("Swish<alpha = 2.5>", "swish(2.5)"),
        ("com.microsoft.QuickGelu", "quick_gelu"),
        ("com.microsoft.QuickGelu<alpha = 1.0>", "silu"),
    ],
)
def test_activations(operator: str, name: str) -> None:
    site = feed_forward(
        f"m = MatMul(x, w1) h = Add(m, b1) a = {operator}(h) n = MatMul(a, w2) y = Add(b2, n)",
        domains=["com.microsoft"],  # type: ignore[arg-type]
    )
    assert (site.activation, site.gated, site.d_model, site.d_ff) == (name, False, 8, 16)
    assert [node.op_type for node in site.nodes] == [
        "MatMul",
        "Add",
        operator.split("<")[0].split(".")[-1],
        "MatMul",
        "Add",
    ]
    assert site.decomposed is None


def test_slope_that_was_rounded_to_float16() -> None:
    body = "h = MatMul(x, w1) a = Swish<alpha = 1.7021484375>(h) y = MatMul(a, w2)"
    (site,) = sites.find(cast(model(body, WEIGHTS, inputs="float[2,8] x"), ir.DataType.FLOAT16))
    assert site.activation == "swish(1.70215)"  # the type of the hidden value is not stated
    hidden = model(body, WEIGHTS)
    hidden.graph[0].outputs[0].dtype = ir.DataType.FLOAT16
    assert sites.find(hidden)[0].activation == "quick_gelu"


@pytest.mark.parametrize("square", ["Mul(r, r)", "Pow(r, two)"])
def test_squared_relu(square: str) -> None:
    body = f"h = MatMul(x, w1) r = Relu(h) a = {square} y = MatMul(a, w2)"
    site = feed_forward(body, constants=WEIGHTS + ", float two = {2}")
    assert (site.activation, site.decomposed) == ("relu2", None)


def test_other_power_of_relu_is_no_known_activation() -> None:
    body = "h = MatMul(x, w1) r = Relu(h) a = Pow(r, two) y = MatMul(a, w2)"
    site = feed_forward(body, constants=WEIGHTS + ", float two = {3}")
    assert (site.activation, site.decomposed) == (None, "the activation is decomposed into 2 nodes: Relu Pow")


@pytest.mark.parametrize("product", ["Mul(h, s)", "Mul(s, h)"])
def test_silu_decomposed(product: str) -> None:
    site = feed_forward(f"h = MatMul(x, w1) s = Sigmoid(h) a = {product} y = MatMul(a, w2)")
    assert (site.activation, site.decomposed) == ("silu", "silu is decomposed into 2 nodes: Sigmoid Mul")


def test_an_activation_without_a_name() -> None:
    site = feed_forward("h = MatMul(x, w1) a = Ceil(h) y = MatMul(a, w2)")  # never an activation
    assert (site.activation, site.decomposed, site.is_tight) == (None, None, True)


@pytest.mark.parametrize(
    ("body", "between", "is_tight"),
    [
        ("h = MatMul(x, w1) a = Relu(h) y = MatMul(a, w2)", "Relu", True),
        ("m = MatMul(x, w1) h = Add(m, b1) a = Relu(h) y = MatMul(a, w2)", "Add Relu", False),
        ("h = MatMul(x, w1) c = Cast<to = 1>(h) a = Relu(c) y = MatMul(a, w2)", "Relu", True),
        ("g = MatMul(x, w1) a = Swish(g) u = MatMul(x, wu) p = Mul(a, u) y = MatMul(p, w2)", "Swish Mul", True),
        (
            "g = MatMul(x, w1) a = Swish(g) u = MatMul(x, wu) v = Add(u, b1) p = Mul(a, v) y = MatMul(p, w2)",
            "Swish Add Mul",
            False,
        ),
    ],
)
def test_what_computes_between_the_products(body: str, between: str, is_tight: bool) -> None:
    site = feed_forward(body)
    assert sorted(node.op_type for node in site.between) == sorted(between.split())
    assert site.is_tight is is_tight


@pytest.mark.parametrize("gate", ["Mul(a, u)", "Mul(u, a)"])
def test_gated(gate: str) -> None:
    site = feed_forward(f"g = MatMul(x, w1) a = Swish(g) u = MatMul(x, wu) p = {gate} y = MatMul(p, w2)")
    assert (site.activation, site.gated, site.d_model, site.d_ff) == ("silu", True, 8, 16)
    assert len(site.nodes) == 5


def test_gated_and_packed() -> None:
    site = feed_forward(
        "g = MatMul(x, w3) l, r = Split<axis = -1, num_outputs = 2>(g) a = Gelu(l) p = Mul(a, r) y = MatMul(p, w2)"
    )
    assert (site.activation, site.gated, site.d_model, site.d_ff) == ("gelu", True, 8, 16)


def test_gate_and_up_of_two_inputs_are_no_feed_forward() -> None:
    inputs = "float[batch,seq,8] x, float[batch,seq,8] z"
    assert (
        found("g = MatMul(x, w1) a = Swish(g) u = MatMul(z, wu) p = Mul(a, u) y = MatMul(p, w2)", inputs=inputs) == []
    )


def test_gemm() -> None:
    site = feed_forward("h = Gemm<transB = 1>(x, w1t, b1) a = Relu(h) y = Gemm(a, w2, b2)", inputs="float[n,8] x")
    assert (site.d_model, site.d_ff, len(site.nodes)) == (8, 16, 3)


def test_gemm_of_the_transposed_input_is_no_linear() -> None:
    assert found("h = Gemm<transA = 1>(x, w1, b1) a = Relu(h) y = Gemm(a, w2, b2)", inputs="float[8,n] x") == []


def test_layout_between_is_seen_through() -> None:
    site = feed_forward("h = MatMul(x, w1) t = Identity(h) a = Relu(t) c = Cast<to = 1>(a) y = MatMul(c, w2)")
    assert site.activation == "relu"


@pytest.mark.parametrize(
    "body",
    [
        "h = MatMul(x, x) a = Relu(h) y = MatMul(a, w2)",  # no weight
        "h = MatMul(w1, x) a = Relu(h) y = MatMul(a, w2)",  # the weight on the left
        "h = MatMul(x, w1) a = Relu(h) y = MatMul(a, w1t)",  # runs, but does not come back to d_model
        "h = MatMul(x, w1) a = Softmax(h) y = MatMul(a, w2)",
        "a = Relu(x) y = MatMul(a, w2)",
        "y = MatMul(x, w1)",
    ],
)
def test_no_feed_forward(body: str) -> None:
    assert found(body, WEIGHTS.replace("float[16,8] w1t", "float[8,16] w1t")) == []


def test_overridable_weight_is_no_linear() -> None:
    weight = WEIGHTS.split(", float[16,8] w2")[0]
    rest = WEIGHTS.removeprefix(weight + ", ")
    inputs = f"float[2,8] x, {weight}"
    assert found("h = MatMul(x, w1) a = Relu(h) y = MatMul(a, w2)", rest, inputs=inputs) == []


@pytest.mark.parametrize(
    "norm", ["LayerNormalization(s, b2, b2)", "RMSNormalization(s, b2)", "LayerNormalization(s, b2)"]
)
@pytest.mark.parametrize("add", ["Add(x, z)", "Add(x, x)"])
def test_norm_of_a_sum(norm: str, add: str) -> None:
    inputs = "float[batch,seq,8] x, float[batch,seq,8] z"
    body = f"s = {add} y = {norm}"
    of = model(body, WEIGHTS, inputs=inputs)
    of.graph[0].outputs[0].shape = of.graph.inputs[0].shape
    assert [(site.kind, len(site.nodes), site.d_model) for site in sites.find(of)] == [
        ("norm", 1, 8),
        ("residual_norm", 2, 8),
    ]


def test_norm_of_a_bias_is_no_residual() -> None:
    assert [site.kind for site in found("s = Add(x, b2) y = LayerNormalization(s, b2)")] == ["norm"]


def test_sites_inside_bodies() -> None:
    branches = """y = If (c) <then_branch = t () => (float[b,s,8] a) { a = RMSNormalization(x, b2) },
                                else_branch = e () => (float[b,s,8] b) { b = Neg(x) }>"""
    (site,) = found(branches, inputs="float[b,s,8] x, bool c")
    assert (site.kind, site.d_model) == ("norm", 8)


@pytest.mark.parametrize(
    "body",
    [
        "y = my.LayerNormalization(x, b2)",
        "h = MatMul(x, w1) a = my.Relu(h) y = MatMul(a, w2)",
        "h = my.MatMul(x, w1) a = Relu(h) y = MatMul(a, w2)",
        "h = MatMul(x, w1) a = Relu(h) y = my.MatMul(a, w2)",
        "m = MatMul(x, w1) h = my.Add(m, b1) a = Relu(h) y = MatMul(a, w2)",
        "g = MatMul(x, w1) a = Swish(g) u = MatMul(x, wu) p = my.Mul(a, u) y = MatMul(p, w2)",
        "h = MatMul(x, w1) s = my.Sigmoid(h) a = Mul(h, s) y = MatMul(a, w2)",
        "h = MatMul(x, w1) r = my.Relu(h) a = Mul(r, r) y = MatMul(a, w2)",
    ],
)
def test_operators_of_other_domains_are_other_operators(body: str) -> None:
    assert found(body, domains=["my"]) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        "y = LayerNormalization()",
        "y = MatMul(x)",
        "y = MatMul()",
        "a = Relu() y = MatMul(a, w2)",
        "a = Mul(x) y = MatMul(a, w2)",
        "a = Mul() y = MatMul(a, w2)",
        "a = Mul(x, x, x) y = MatMul(a, w2)",
        "a = Pow(x) y = MatMul(a, w2)",
        "r = Relu() a = Mul(r, r) y = MatMul(a, w2)",
        "s = Sigmoid() a = Mul(x, s) y = MatMul(a, w2)",
        "s = Add(x) a = Relu(s) y = MatMul(a, w2)",
        "s = Split() a = Relu(s) y = MatMul(a, w2)",
        "h = MatMul(, w1) a = Relu(h) y = MatMul(a, w2)",
        "s = Identity() y = MatMul(s, w2)",
        "s = Add() y = LayerNormalization(s, b2)",
    ],
)
def test_malformed_nodes_are_no_sites_and_no_crash(body: str) -> None:
    assert [site for site in found(body) if site.kind != "norm"] == [] or "Add()" in body
