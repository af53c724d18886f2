"""Edges of scopes: sites inside the bodies of If, Loop and Scan, and inside functions of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import ERF, both, gelu, layer_norm, rms, tanh_gelu, tensor
from tests.fusion.edges.texts import CONSTANTS, FLAG, LAYER, RELU


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _subgraphs()
    yield from _functions()


def _in_if(inside: str, outside: str = "", *, result: str = "y", inputs: str = FLAG, name: str, **options: Any) -> Edge:
    branches = f"then_branch = t () => (float[b,s,8] {result}1) {{ {inside} }}, else_branch = e () => (float[b,s,8] other) {{ other = Neg(x) }}"
    return edge(name, f"{outside} {result} = If(c) <{branches}>", CONSTANTS, inputs=inputs, **options)


def _subgraphs() -> Iterator[Edge]:
    for name, inside in {
        "gelu": gelu("x", "y1"),
        "rms": rms("x", "y1"),
        "layer-norm": layer_norm("x", "y1"),
        "tanh": tanh_gelu("x", "y1"),
        "silu": "s = Sigmoid(x) y1 = Mul(x, s)",
        "relu": RELU.replace("y =", "y1 ="),
        "layer": LAYER.replace("y =", "y1 ="),
        "pair": "a = Add(x, x2) y1 = LayerNormalization(a, scale, shift)",
        "swapped": "w = Transpose(w2) m = MatMul(x, w) y0 = Relu(m) y1 = MatMul(y0, w2)",
    }.items():
        for opset in (14, 18, 20, 24):
            if "LayerNorm" in inside and opset < 17:
                continue
            text = (
                inside
                if opset > 17
                else inside.replace(", last)", ")").replace("ReduceMean(", "ReduceMean<axes = [-1]>(")
            )
            inputs = FLAG + ", float[batch,seq,8] x2" if "x2" in inside else FLAG
            yield _in_if(text, name=f"if-{name}-{opset}", inputs=inputs, opset=opset)
    # A site of which one part is outside.
    for name, outside, inside in (
        ("mean", "lu = ReduceMean(x, last)", layer_norm("x", "y1").replace("lu = ReduceMean(x, last)", "")),
        ("square", "rq = Pow(x, two)", rms("x", "y1").replace("rq = Pow(x, two)", "")),
        (
            "mean-square",
            "rq = Pow(x, two) rm = ReduceMean(rq, last)",
            rms("x", "y1").replace("rq = Pow(x, two) rm = ReduceMean(rq, last)", ""),
        ),
        (
            "root",
            "rq = Pow(x, two) rm = ReduceMean(rq, last) re = Add(rm, eps) ro = Sqrt(re)",
            "ri = Reciprocal(ro) rn = Mul(x, ri) y1 = Mul(rn, scale)",
        ),
        ("norm", "n = LayerNormalization(x, scale)", "y1 = Add(n, shift)"),
        (
            "centred",
            "lu = ReduceMean(x, last) lc = Sub(x, lu)",
            layer_norm("x", "y1").replace("lu = ReduceMean(x, last) lc = Sub(x, lu)", ""),
        ),
        ("erf", "gd = Div(x, root) ge = Erf(gd)", gelu("x", "y1").replace("gd = Div(x, root) ge = Erf(gd)", "")),
        ("divided", "gd = Div(x, root)", gelu("x", "y1").replace("gd = Div(x, root)", "")),
        ("sigmoid", "s = Sigmoid(x)", "y1 = Mul(x, s)"),
        ("negated", "n = Neg(x)", "e = Exp(n) d = Add(e, one) y1 = Div(x, d)"),
        ("exp", "n = Neg(x) e = Exp(n)", "d = Add(e, one) y1 = Div(x, d)"),
        ("softplus", "p = Softplus(x)", "t = Tanh(p) y1 = Mul(x, t)"),
        ("product", "m = MatMul(x, w1)", "a = Add(m, b1) h = Relu(a) y1 = MatMul(h, w2)"),
        ("sum", "m = MatMul(x, w1) a = Add(m, b1)", "h = Gelu(a) y1 = MatMul(h, w2)"),
        ("residual", "a = Add(x, x)", "y1 = LayerNormalization(a, scale, shift)"),
        ("reshape", "a = Add(x, x) q = Identity(a)", "y1 = LayerNormalization(q, scale, shift)"),
        ("transposed", "q = Transpose<perm = [0, 2, 1]>(x)", "r = Relu(q) y1 = Transpose<perm = [0, 2, 1]>(r)"),
        ("weight", "w = Transpose(w2)", "m = MatMul(x, w) a = Add(m, b1) h = Relu(a) y1 = MatMul(h, w2)"),
        (
            "unsqueezed",
            "q = Mul(x, x) m = ReduceMean<keepdims = 0>(q, last)",
            "k = Unsqueeze(m, last) e = Add(k, eps) o = Sqrt(e) n = Div(x, o) y1 = Mul(n, scale)",
        ),
        ("scale", "k = Add(scale, one)", "n = LayerNormalization(x, k) y1 = Add(n, shift)"),
    ):
        yield _in_if(inside, outside, name=f"if-{name}-is-outside", opset=20)
        yield _in_if(
            "y1 = Neg(x)", outside + " " + inside.replace("y1 =", "innermost ="), name=f"if-{name}-beside", opset=20
        )
    loop = "n = Constant<value = int64 {3}>() t = Constant<value = bool {1}>() y = Loop(n, t, x) <body = b (int64 i, bool go, float[p,q,8] v) => (bool more, float[p,q,8] w) { more = Identity(go) %s }>"
    for name, inside in {
        "gelu": gelu("v", "w"),
        "rms": rms("v", "w"),
        "layer": LAYER.replace("(x,", "(v,").replace(", x)", ", v)").replace("y =", "w ="),
    }.items():
        yield edge(f"loop-{name}", loop % inside, CONSTANTS, opset=20)
    pair = "a = Add(v, v2) w = LayerNormalization(a, scale, shift)".replace("v2", "x")
    yield edge("loop-residual-of-outer", loop % pair, CONSTANTS, opset=20, inputs="float[batch,seq,8] x")
    scan = "y = Scan<num_scan_inputs = 1, body = b (float[q,8] v) => (float[q,8] w) { %s }>(x)"
    yield edge("scan-gelu", scan % gelu("v", "w"), CONSTANTS, opset=20)
    yield edge("scan-relu", scan % RELU.replace("(x,", "(v,").replace("y =", "w ="), CONSTANTS, opset=20)
    nested = "y = If(c) <then_branch = t () => (float[b,s,8] k) { k = If(c) <then_branch = tt () => (float[b,s,8] l) { %s }, else_branch = ee () => (float[b,s,8] o) { o = Abs(x) }> }, else_branch = e () => (float[b,s,8] p) { p = Neg(x) }>"
    yield edge("if-in-if", nested % gelu("x", "l"), CONSTANTS, inputs=FLAG, opset=20)
    yield edge("if-in-if-rms", nested % rms("x", "l"), CONSTANTS, inputs=FLAG, opset=20)
    own = "y = If(c) <then_branch = t () => (float[b,s,8] k) <float[8] scale = {1,2,3,4,5,6,7,8}> { %s }, else_branch = e () => (float[b,s,8] p) { p = Neg(x) }>"
    yield edge("if-own-initializer", own % rms("x", "k"), ERF, inputs=FLAG, opset=20)
    yield edge("if-shadowed-initializer", own % rms("x", "k"), CONSTANTS, inputs=FLAG, opset=20)
    yield edge(
        "if-shadowed-through-identity",
        "w = Identity(scale) " + (own % "u = Mul(x, scale) k = Mul(u, w)"),
        CONSTANTS,
        inputs=FLAG,
        opset=20,
    )
    yield edge(
        "if-shadowed-value",
        "h = Neg(x) z = LayerNormalization(h, scale) "
        + (own % "h = Abs(x) g = Add(h, h) k = Mul(g, x)").replace("y =", "q =")
        + " y = Add(q, z)",
        ERF + ", " + tensor("scale", 8),
        inputs=FLAG,
        opset=20,
    )
    yield edge(
        "if-names-that-rules-make",
        gelu("x", "y").replace("y =", "v =")
        + " y = If(c) <then_branch = t () => (float[b,s,8] k) { v_constant = Neg(v) v_Reshape = Abs(v_constant) k = Add(v_Reshape, v) }, else_branch = e () => (float[b,s,8] p) { p = Neg(x) }>",
        CONSTANTS,
        inputs=FLAG,
        opset=20,
    )


def _functions() -> Iterator[Edge]:
    def of(
        body: str,
        functions: str,
        name: str,
        *domains: str,
        constants: str = CONSTANTS,
        opset: int = 20,
        **options: Any,
    ) -> Edge:
        return edge(name, body, constants, functions=functions, domains=domains, opset=opset, **options)

    def function(header: str, body: str, domain: str = "local", imports: str = '"" : 20') -> str:
        return f'<domain: "{domain}", opset_import: [{imports}]> {header} {{ {body} }}'

    erf = (
        "root = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>() half = Constant<value_float = 0.5>() "
        + gelu("v", "w")
    )
    for opset in (17, 18, 20, 23):
        own = function("act (v) => (w)", erf, imports=f'"" : {opset}')
        yield of("y = local.act(x)", own, f"function-gelu-of-opset-{opset}", "local")
        yield of("y = local.act(x)", own, f"function-gelu-of-opset-{opset}-in-{opset}", "local", opset=opset)
    legacy = "two = Constant<value_float = 2.0>() eps = Constant<value_float = 1e-5>() q = Pow(v, two) m = ReduceMean<axes = [-1]>(q) e = Add(m, eps) o = Sqrt(e) w = Div(v, o)"
    yield of(
        "y = local.norm(x)",
        function("norm (v) => (w)", legacy, imports='"" : 17'),
        "function-of-an-older-opset",
        "local",
    )
    yield of(
        "y = local.norm(x)",
        function("norm (v) => (w)", legacy, imports='"" : 17'),
        "function-of-the-same-old-opset",
        "local",
        opset=17,
    )
    newer = "y0 = local.norm(x) q = ReduceMean<axes = [-1], keepdims = 1>(x) y = Add(y0, q)"
    yield of(
        newer,
        function(
            "norm (v) => (w)",
            legacy.replace("ReduceMean<axes = [-1]>(q)", "ReduceMean(q, l)").replace(
                "two =", "l = Constant<value_ints = [-1]>() two ="
            ),
            imports='"" : 18',
        ),
        "function-of-a-newer-opset",
        "local",
        opset=17,
    )
    yield of(
        "y = local.act<slope = 1.702>(x)",
        function(
            "act <slope> (v) => (w)",
            "k = Constant<value_float : float = @slope>() t = Mul(v, k) s = Sigmoid(t) w = Mul(v, s)",
        ),
        "function-attribute",
        "local",
    )
    yield of(
        "y = local.act(x)",
        function(
            "act <slope : float = 1.702> (v) => (w)",
            "k = Constant<value_float : float = @slope>() t = Mul(v, k) s = Sigmoid(t) w = Mul(v, s)",
        ),
        "function-attribute-default",
        "local",
    )
    leaky = function(
        "act <slope> (v, u, b) => (w)", "m = MatMul(v, u) a = Add(m, b) w = LeakyRelu<alpha : float = @slope>(a)"
    )
    yield of("h = local.act<slope = 0.3>(x, w1, b1) y = MatMul(h, w2)", leaky, "function-attribute-of-a-node", "local")
    yield of("h = local.act(x, w1, b1) y = MatMul(h, w2)", leaky, "function-attribute-missing", "local")
    norm = function("norm <epsilon> (v, s) => (w)", "w = LayerNormalization<epsilon : float = @epsilon>(v, s)")
    yield of(
        "a = Add(x, r) y = local.norm<epsilon = 0.1>(a, scale)",
        norm,
        "function-norm-epsilon",
        "local",
        inputs="float[batch,seq,8] x, float[batch,seq,8] r",
        fused="SkipLayerNormalization",
    )
    gelu_kind = function(
        "act <kind> (v, u, b) => (w)", "m = MatMul(v, u) a = Add(m, b) w = Gelu<approximate : string = @kind>(a)"
    )
    yield of('h = local.act<kind = "tanh">(x, w1, b1) y = MatMul(h, w2)', gelu_kind, "function-gelu-kind", "local")
    twice = function("outer (v) => (w)", "k = local.act(v) w = local.act(k)", imports='"" : 20, "local" : 1')
    yield of("y = local.outer(x)", twice + function("act (v) => (w)", erf), "function-nested", "local")
    other = function("outer (v) => (w)", "k = inner.act(v) w = Relu(k)", imports='"" : 20, "inner" : 1')
    yield of(
        "y = local.outer(x)",
        other + function("act (v) => (w)", erf, domain="inner"),
        "function-of-a-domain-not-imported",
        "local",
        "inner",
    )
    yield of(
        "y = com.microsoft.BiasGelu(x, b)",
        function("BiasGelu (v, b) => (w)", "a = Add(v, b) w = Gelu(a)", domain="com.microsoft"),
        "function-bias-gelu",
        "com.microsoft",
        constants=both(CONSTANTS, tensor("b", 8)),
    )
    mine = function("BiasGelu (v, b) => (w)", "a = Sub(v, b) w = Relu(a)", domain="com.microsoft")
    yield of(
        "a = Add(x, b) y0 = Gelu(a) y1 = com.microsoft.BiasGelu(x, b) y = Add(y0, y1)",
        mine,
        "function-bias-gelu-of-its-own",
        "com.microsoft",
        constants=both(CONSTANTS, tensor("b", 8)),
    )
    quick = function("QuickGelu <alpha> (v) => (w)", "w = Relu(v)", domain="com.microsoft")
    yield of(
        "s = Sigmoid(x) y0 = Mul(x, s) y1 = com.microsoft.QuickGelu<alpha = 1.0>(y0) y = Add(y0, y1)",
        quick,
        "function-quick-gelu-of-its-own",
        "com.microsoft",
    )
    yield of(LAYER, function("unused (v) => (w)", erf), "function-unused", "local")
    yield of(
        f"{gelu('x', 'k')} y = local.act(k)",
        function("act (v) => (w)", "w = Neg(v)"),
        "function-without-a-site",
        "local",
        opset=14,
    )
    yield of(
        f"{gelu('x', 'k')} y = local.act(k)",
        function("act (v) => (w)", "w = ReduceMean<axes = [-1]>(v)", imports='"" : 17'),
        "function-with-a-legacy-reduce",
        "local",
        opset=17,
    )
    yield of(
        "y = local.act(x)",
        function("act (v) => (w)", "m = ReduceMean<axes = [-1]>(v) w = Sub(v, m)", imports='"" : 17'),
        "function-with-a-legacy-reduce-alone",
        "local",
        opset=20,
    )
    yield of(
        "y = local.act(x)",
        function("act (v) => (w)", erf.replace("gd =", "y =").replace("Erf(gd)", "Erf(y)")),
        "function-value-named-as-outside",
        "local",
    )
    yield of(
        "y = local.both(x)",
        function("both (v) => (w, unread)", erf + " unread = Neg(w)"),
        "function-output-unread",
        "local",
    )
    yield of("y = local.maybe(x)", function("maybe (v, b) => (w)", erf), "function-input-left-out", "local")
    yield of(
        "y = local.maybe(x)",
        function("maybe (v, b) => (w)", "w = LayerNormalization(v, b)"),
        "function-input-left-out-and-read",
        "local",
    )
    yield of(
        "z = Neg(x) y = local.through(z)",
        function("through (v) => (v)", "t = Sigmoid(v) q = Mul(t, v)"),
        "function-that-gives-its-input",
        "local",
    )
    inner = function("act (v) => (w)", erf)
    yield of(
        "y = If(c) <then_branch = t () => (float[b,s,8] k) { k = local.act(x) }, else_branch = e () => (float[b,s,8] l) { l = Neg(x) }>",
        inner,
        "function-in-if",
        "local",
        inputs=FLAG,
    )
    training = function("act (v) => (w)", "d = Dropout(v) s = Sigmoid(d) w = Mul(d, s)")
    yield of("y = local.act(x)", training, "function-with-dropout", "local")
