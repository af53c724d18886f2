"""Edges of graphs as such: subgraphs, functions, names, types, orders, what a model may leave out or hold besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.pieces import AFFINE, ERF, TANH, WEIGHTS, both, gelu, layer_norm, rms, tanh_gelu, tensor

CONSTANTS = both(ERF, AFFINE, WEIGHTS, ", ".join(TANH.split(", ")[:3]))
RELU = "m = MatMul(x, w1) a = Add(m, b1) h = Relu(a) y = MatMul(h, w2)"
LAYER = f"m = MatMul(x, w1) a = Add(m, b1) {gelu('a', 'h')} n = MatMul(h, w2) o = Add(n, b2) p = Add(o, x) {layer_norm('p', 'y')}"
FLAG = "float[batch,seq,8] x, bool c"


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _subgraphs()
    yield from _functions()
    yield from _names()
    yield from _constants()
    yield from _damaged()
    yield from _values()
    yield from _opsets()


def changed(of: Edge, change: Callable[[onnx.ModelProto], object], name: str, fused: str | None = None) -> Edge:
    """Return an edge with a change made to its proto."""
    proto = onnx.ModelProto()
    proto.CopyFrom(of.proto)
    change(proto)
    return Edge(name, proto, None if fused is None else tuple(fused.split()), of.scale)


def _in_if(inside: str, outside: str = "", *, result: str = "y", inputs: str = FLAG, name: str, **options: Any) -> Edge:
    branches = f"then_branch = t () => (float[b,s,8] {result}1) {{ {inside} }}, else_branch = e () => (float[b,s,8] other) {{ other = Neg(x) }}"
    return edge(name, f"{outside} {result} = If(c) <{branches}>", CONSTANTS, inputs=inputs, **options)


def _subgraphs() -> Iterator[Edge]:
    for name, inside in {
        "gelu": gelu("x", "y1"), "rms": rms("x", "y1"), "layer-norm": layer_norm("x", "y1"), "tanh": tanh_gelu("x", "y1"),
        "silu": "s = Sigmoid(x) y1 = Mul(x, s)", "relu": RELU.replace("y =", "y1 ="), "layer": LAYER.replace("y =", "y1 ="),
        "pair": "a = Add(x, x2) y1 = LayerNormalization(a, scale, shift)", "swapped": "w = Transpose(w2) m = MatMul(x, w) y0 = Relu(m) y1 = MatMul(y0, w2)",
    }.items():  # fmt: skip
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
        ("mean-square", "rq = Pow(x, two) rm = ReduceMean(rq, last)", rms("x", "y1").replace("rq = Pow(x, two) rm = ReduceMean(rq, last)", "")),
        ("root", "rq = Pow(x, two) rm = ReduceMean(rq, last) re = Add(rm, eps) ro = Sqrt(re)", "ri = Reciprocal(ro) rn = Mul(x, ri) y1 = Mul(rn, scale)"),
        ("norm", "n = LayerNormalization(x, scale)", "y1 = Add(n, shift)"),
        ("centred", "lu = ReduceMean(x, last) lc = Sub(x, lu)", layer_norm("x", "y1").replace("lu = ReduceMean(x, last) lc = Sub(x, lu)", "")),
        ("erf", "gd = Div(x, root) ge = Erf(gd)", gelu("x", "y1").replace("gd = Div(x, root) ge = Erf(gd)", "")),
        ("divided", "gd = Div(x, root)", gelu("x", "y1").replace("gd = Div(x, root)", "")),
        ("sigmoid", "s = Sigmoid(x)", "y1 = Mul(x, s)"), ("negated", "n = Neg(x)", "e = Exp(n) d = Add(e, one) y1 = Div(x, d)"),
        ("exp", "n = Neg(x) e = Exp(n)", "d = Add(e, one) y1 = Div(x, d)"), ("softplus", "p = Softplus(x)", "t = Tanh(p) y1 = Mul(x, t)"),
        ("product", "m = MatMul(x, w1)", "a = Add(m, b1) h = Relu(a) y1 = MatMul(h, w2)"),
        ("sum", "m = MatMul(x, w1) a = Add(m, b1)", "h = Gelu(a) y1 = MatMul(h, w2)"),
        ("residual", "a = Add(x, x)", "y1 = LayerNormalization(a, scale, shift)"), ("reshape", "a = Add(x, x) q = Identity(a)", "y1 = LayerNormalization(q, scale, shift)"),
        ("transposed", "q = Transpose<perm = [0, 2, 1]>(x)", "r = Relu(q) y1 = Transpose<perm = [0, 2, 1]>(r)"),
        ("weight", "w = Transpose(w2)", "m = MatMul(x, w) a = Add(m, b1) h = Relu(a) y1 = MatMul(h, w2)"),
        ("unsqueezed", "q = Mul(x, x) m = ReduceMean<keepdims = 0>(q, last)", "k = Unsqueeze(m, last) e = Add(k, eps) o = Sqrt(e) n = Div(x, o) y1 = Mul(n, scale)"),
        ("scale", "k = Add(scale, one)", "n = LayerNormalization(x, k) y1 = Add(n, shift)"),
    ):  # fmt: skip
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
    yield edge("if-own-initialiser", own % rms("x", "k"), ERF, inputs=FLAG, opset=20)
    yield edge("if-shadowed-initialiser", own % rms("x", "k"), CONSTANTS, inputs=FLAG, opset=20)
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


def _names() -> Iterator[Edge]:
    more = both(CONSTANTS, tensor("y_constant", 8), tensor("h_constant", 16), tensor("a_constant", 16))
    taken = (
        RELU.replace("y =", "y_k =")
        + " y_Reshape = Neg(y_k) h_FusedGemm = Abs(y_Reshape) h_Shape = Mul(h_FusedGemm, y_constant) y = Add(h_Shape, h_FusedGemm)"
    )
    yield edge("names-that-rules-make", taken, more, opset=20)
    yield edge(
        "names-of-constants",
        LAYER.replace("y =", "y2 =")
        + " k = Add(y2, y_constant) l = MatMul(k, w1) h_constant_1 = Add(l, h_constant) q = Mul(h_constant_1, a_constant) y = MatMul(q, w2)",
        more,
        opset=20,
    )
    axes = gelu("x", "g") + " u = ReduceMean<axes = [-1]>(g) u_axes = Neg(u) y = Add(g, u_axes)"
    yield edge("name-of-axes-is-taken", axes, ERF, opset=17, fused="Gelu")
    yield edge(
        "name-of-axes-is-an-input",
        axes.replace("u_axes = Neg(u) y = Add(g, u_axes)", "y = Add(u, u_axes)"),
        ERF,
        opset=17,
        inputs="float[batch,seq,8] x, float[batch,seq,8] u_axes",
        fused="Gelu",
    )
    yield edge(
        "name-of-split-is-taken",
        gelu("x", "g")
        + " u, v = Split<axis = -1, split = [4, 4]>(g) u_split = Neg(u) w = Add(u_split, v) y = Concat<axis = -1>(w, w)",
        ERF,
        opset=11,
    )
    base = edge("base", LAYER, CONSTANTS, opset=20)

    def renamed(name: str) -> Callable[[onnx.ModelProto], None]:
        def change(proto: onnx.ModelProto) -> None:
            for node in proto.graph.node:
                node.name = name

        return change

    yield changed(base, renamed(""), "nodes-without-names")
    yield changed(base, renamed("n"), "nodes-of-one-name")

    def no_types(proto: onnx.ModelProto) -> None:
        del proto.graph.value_info[:]

    def bare_outputs(proto: onnx.ModelProto) -> None:
        proto.graph.output[0].ClearField("type")

    def bare_inputs(proto: onnx.ModelProto) -> None:
        proto.graph.input[0].type.tensor_type.ClearField("shape")

    yield changed(base, no_types, "no-value-infos")
    yield changed(base, bare_outputs, "output-without-a-type")
    yield changed(base, bare_inputs, "input-without-a-shape")

    def lying(proto: onnx.ModelProto) -> None:
        proto.graph.value_info.append(helper.make_tensor_value_info("o", TensorProto.FLOAT, ["batch", "seq", 8]))
        proto.graph.value_info.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, ["other", "names", 8]))

    def bare_infos(proto: onnx.ModelProto) -> None:
        for name in ("m", "a", "h", "o", "p"):
            proto.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    yield changed(base, lying, "value-infos-with-other-symbols")
    yield changed(base, bare_infos, "value-infos-without-shapes")

    def metadata(proto: onnx.ModelProto) -> None:
        helper.set_model_props(proto, {"author": "me"})
        proto.doc_string, proto.producer_name, proto.domain = "doc", "p", "d"
        proto.graph.input[0].doc_string = "the input"

    yield changed(base, metadata, "metadata")


def _constants() -> Iterator[Edge]:
    forms = {
        "value_float": ("value_float = 1.4142135", ""), "value": ("value = float {1.4142135}", ""), "value-rank-1": ("value = float[1] {1.4142135}", ""),
        "value_floats": ("value_floats = [1.4142135]", ""), "value_int": ("value_int = 2", "k"), "value_ints": ("value_ints = [2]", "k"),
        "value_string": ('value_string = "a"', "unused"), "value_strings": ('value_strings = ["a", "b"]', "unused"),
    }  # fmt: skip
    for name, (attribute, kind) in forms.items():
        if kind == "unused":
            body = f"k = Constant<{attribute}>() {gelu('x', 'y')}"
        elif kind == "k":
            body = f"k = Constant<{attribute}>() f = Cast<to = 1>(k) root2 = Sqrt(f) {gelu('x', 'y').replace('root', 'root2')}"
        else:
            body = f"root2 = Constant<{attribute}>() {gelu('x', 'y').replace('root', 'root2')}"
        yield edge(f"constant-{name}", body, ERF, opset=20, fused="Gelu")
    base = edge(
        "base", "root2 = Constant<value_float = 1.4142135>() " + gelu("x", "y").replace("root", "root2"), ERF, opset=20
    )

    def sparse(proto: onnx.ModelProto) -> None:
        values = numpy_helper.from_array(np.array([1.4142135], np.float32), "v")
        indices = numpy_helper.from_array(np.array([0], np.int64), "i")
        attribute = helper.make_attribute("sparse_value", helper.make_sparse_tensor(values, indices, [1]))
        del proto.graph.node[0].attribute[:]
        proto.graph.node[0].attribute.append(attribute)

    def none(proto: onnx.ModelProto) -> None:
        del proto.graph.node[0].attribute[:]

    def two(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].attribute.append(helper.make_attribute("value_int", 3))

    yield changed(base, sparse, "constant-sparse")
    yield changed(base, none, "constant-without-a-value")
    yield changed(base, two, "constant-with-two-values")

    def sparse_initialiser(proto: onnx.ModelProto) -> None:
        values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "scale")
        indices = numpy_helper.from_array(np.array([1, 3], np.int64), "i")
        kept = [i for i in proto.graph.initializer if i.name != "scale"]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))

    yield changed(edge("s", layer_norm("x", "y"), CONSTANTS, opset=20), sparse_initialiser, "sparse-initialiser")
    yield changed(
        edge("s", "k = Mul(x, scale) " + gelu("k", "y"), CONSTANTS, opset=20),
        sparse_initialiser,
        "sparse-initialiser-beside",
    )

    def raw(proto: onnx.ModelProto) -> None:
        for initializer in proto.graph.initializer:
            array = numpy_helper.to_array(initializer)
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))

    def missing(proto: onnx.ModelProto) -> None:
        for initializer in proto.graph.initializer:
            if initializer.name in ("w1", "w2", "scale", "b1"):
                count = int(np.prod(initializer.dims))
                initializer.ClearField("float_data")
                initializer.data_location = TensorProto.EXTERNAL
                for key, value in (("location", "not-there.bin"), ("offset", "0"), ("length", str(4 * count))):
                    entry = initializer.external_data.add()
                    entry.key, entry.value = key, value

    def short(proto: onnx.ModelProto) -> None:
        next(i for i in proto.graph.initializer if i.name == "b1").ClearField("float_data")

    base = edge("base", LAYER, CONSTANTS, opset=20)
    yield changed(base, raw, "initialisers-raw")
    yield changed(base, short, "initialiser-without-data")
    transposed = edge(
        "t",
        "w = Transpose(w2) m = MatMul(x, w) a = Add(m, b1) "
        + gelu("a", "h")
        + " n = MatMul(h, w2) k = Identity(b2) y = Add(n, k)",
        CONSTANTS,
        opset=20,
    )
    yield changed(transposed, raw, "initialisers-transposed")
    missing_scale = edge(
        "m", layer_norm("x", "y") + " z = MatMul(y, w1)", CONSTANTS, opset=20, outputs="float[batch,seq,16] z"
    )
    yield changed(base, missing, "external-data-missing")
    yield changed(missing_scale, missing, "external-scale-missing")
    yield changed(transposed, missing, "external-transposed-missing")


def _damaged() -> Iterator[Edge]:
    base = edge("base", LAYER, CONSTANTS, opset=20)

    def unsorted(proto: onnx.ModelProto) -> None:
        nodes = list(proto.graph.node)[::-1]
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)

    def cyclic(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].input[0] = "y"

    def own_input(proto: onnx.ModelProto) -> None:
        proto.graph.node[1].input[1] = proto.graph.node[1].output[0]

    def no_imports(proto: onnx.ModelProto) -> None:
        del proto.opset_import[:]

    def only_vendor(proto: onnx.ModelProto) -> None:
        proto.opset_import[0].domain, proto.opset_import[0].version = "com.microsoft", 1

    def spelled(proto: onnx.ModelProto) -> None:
        proto.opset_import[0].domain = "ai.onnx"

    def spelled_nodes(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            node.domain = "ai.onnx"

    def spelled_both(proto: onnx.ModelProto) -> None:
        spelled(proto)
        spelled_nodes(proto)

    def spelled_twice(proto: onnx.ModelProto) -> None:
        proto.opset_import.append(helper.make_opsetid("ai.onnx", 20))

    def undefined(proto: onnx.ModelProto) -> None:
        proto.graph.node[1].input[1] = "nobody"

    def undefined_output(proto: onnx.ModelProto) -> None:
        proto.graph.output[0].name = "nobody"

    def no_nodes(proto: onnx.ModelProto) -> None:
        del proto.graph.node[:]

    def no_graph_name(proto: onnx.ModelProto) -> None:
        proto.graph.ClearField("name")

    def no_ir_version(proto: onnx.ModelProto) -> None:
        proto.ClearField("ir_version")

    def old_ir(proto: onnx.ModelProto) -> None:
        proto.ir_version = 3

    def twice(proto: onnx.ModelProto) -> None:
        proto.graph.node.append(proto.graph.node[-1])

    def training(proto: onnx.ModelProto) -> None:
        proto.training_info.add().algorithm.name = "train"

    def annotated(proto: onnx.ModelProto) -> None:
        annotation = proto.graph.quantization_annotation.add()
        annotation.tensor_name = "h"
        entry = annotation.quant_parameter_tensor_names.add()
        entry.key, entry.value = "SCALE_TENSOR", "eps"

    for change in (
        unsorted, cyclic, own_input, no_imports, only_vendor, spelled, spelled_nodes, spelled_both, spelled_twice, undefined, undefined_output,
        no_nodes, no_graph_name, no_ir_version, old_ir, twice, training, annotated,
    ):  # fmt: skip
        yield changed(base, change, f"model-{change.__name__.replace('_', '-')}")

    def inputs(operator: str, count: int) -> Callable[[onnx.ModelProto], None]:
        def change(proto: onnx.ModelProto) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    given = [*node.input, *node.input, *node.input][:count]
                    del node.input[:]
                    node.input.extend(given)

        return change

    every = f"{LAYER.replace('y =', 'y3 =')} s = Sigmoid(y3) k = Mul(y3, s) c = LayerNormalization(k, scale, shift) q = RMSNormalization(c, scale) t = Transpose<perm = [0, 2, 1]>(q) r = Relu(t) u = Transpose<perm = [0, 2, 1]>(r) g = Gelu(u) i = Identity(g) f = Cast<to = 1>(i) e2 = Exp(f) n2 = Neg(e2) y = Clip(n2, eps, one)"
    full = edge("base", every, CONSTANTS, opset=23)
    operators = sorted({node.op_type for node in full.proto.graph.node})
    for operator in operators:
        for count in (0, 1, 2, 3):
            yield changed(full, inputs(operator, count), f"{operator.lower()}-with-{count}-inputs")

        def emptied(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator and len(node.input) > 1:
                    node.input[0] = ""

        def no_output(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    del node.output[:]

        def attributes(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    del node.attribute[:]
                    for key in (
                        "axis",
                        "epsilon",
                        "alpha",
                        "approximate",
                        "stash_type",
                        "perm",
                        "to",
                        "keepdims",
                        "transA",
                    ):
                        node.attribute.append(helper.make_attribute(key, "text"))

        def bare(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    for key in ("axis", "epsilon", "alpha", "approximate", "stash_type", "perm", "to", "keepdims"):
                        node.attribute.append(onnx.AttributeProto(name=key))

        def other_domain(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    node.domain = "someone.else"

        yield changed(full, emptied, f"{operator.lower()}-with-an-empty-input")
        yield changed(full, no_output, f"{operator.lower()}-without-outputs")
        yield changed(full, attributes, f"{operator.lower()}-with-attributes-of-text")
        yield changed(full, bare, f"{operator.lower()}-with-attributes-of-no-type")
        yield changed(full, other_domain, f"{operator.lower()}-of-another-domain")


def _values() -> Iterator[Edge]:
    yield edge(
        "sequence",
        "q = SequenceConstruct(x, x) k = Constant<value = int64 {0}>() e = SequenceAt(q, k) " + gelu("e", "y"),
        ERF,
        opset=20,
    )
    yield edge(
        "sequence-output",
        gelu("x", "g") + " y = SequenceConstruct(g, x)",
        ERF,
        opset=20,
        outputs="seq(float[batch,seq,8]) y",
    )
    yield edge(
        "sequence-of-pieces",
        gelu("x", "g").replace("g = Mul(gm", "g = Mul(gm")
        + " q = SequenceConstruct(ga, g) k = Constant<value = int64 {1}>() y = SequenceAt(q, k)",
        ERF,
        opset=20,
    )
    yield edge("optional", "o = Optional(x) e = OptionalGetElement(o) " + gelu("e", "y"), ERF, opset=20)
    yield edge(
        "optional-input",
        "e = OptionalGetElement(o) " + gelu("e", "y"),
        ERF,
        opset=20,
        inputs="optional(float[batch,seq,8]) o",
    )
    yield edge("strings", gelu("x", "y"), both(ERF, 'string name = {"a"}'), opset=20)
    yield edge(
        "integers",
        "q = Mul(x, x) a = Add(q, x) r = Relu(a) y = Sub(r, x)",
        inputs="int32[batch,8] x",
        outputs="int32[batch,8] y",
        opset=20,
    )
    yield edge(
        "integer-gemm",
        "m = MatMul(x, w) a = Add(m, b) y = Relu(a)",
        "int32[8,4] w = {" + ",".join(["1", "2"] * 16) + "}, int32[4] b = {1,2,3,4}",
        inputs="int32[n,8] x",
        outputs="int32[n,4] y",
        opset=20,
    )
    for name, shape in {
        "zero": "0,3,8",
        "static": "2,3,8",
        "ones": "1,1,8",
        "unnamed": "?,?,8",
        "rank-1": "8",
        "rank-2": "n,8",
        "rank-4": "a,b,c,8",
        "rank-5": "a,b,c,d,8",
        "width-zero": "2,0,8",
    }.items():
        for opset in (17, 20):
            body = (
                LAYER
                if opset > 17
                else LAYER.replace(", last)", ")").replace("ReduceMean(", "ReduceMean<axes = [-1]>(")
            )
            yield edge(
                f"layer-{name}-{opset}",
                body,
                CONSTANTS,
                inputs=f"float[{shape}] x",
                outputs=f"float[{shape}] y",
                opset=opset,
            )
    yield edge("input-is-output", gelu("x", "y"), ERF, outputs="float[batch,seq,8] y, float[batch,seq,8] x", opset=20)
    yield edge("output-twice", gelu("x", "y"), ERF, outputs="float[batch,seq,8] y, float[batch,seq,8] y", opset=20)
    yield edge("initialiser-is-output", gelu("x", "y"), ERF, outputs="float[batch,seq,8] y, float half", opset=20)
    yield edge("input-unread", gelu("x", "y"), ERF, inputs="float[batch,seq,8] x, float[3] z", opset=20)
    yield edge("node-unread", gelu("x", "y") + " z = Neg(y)", ERF, opset=20)
    yield edge("unread-reader-of-a-piece", gelu("x", "y") + " z = Neg(ga)", ERF, opset=20)
    yield edge("initialiser-unread", gelu("x", "y"), both(ERF, tensor("nobody", 8)), opset=20)
    yield edge("same-node-twice", "a = Sigmoid(x) b = Sigmoid(x) c = Mul(x, a) d = Mul(x, b) y = Add(c, d)", opset=20)
    yield edge(
        "random",
        "u = RandomNormalLike(x) v = Mul(u, zero) w = Add(v, x) " + gelu("w", "y"),
        both(ERF, tensor("zero", values=[0])),
        opset=17,
    )


def _opsets() -> Iterator[Edge]:
    """Operators whose later versions mean another thing, beside a site that wants a later opset."""
    for name, beside in {
        "softmax-axis-1": "z = Softmax(g)", "softmax-last": "z = Softmax<axis = -1>(g)", "softmax-2": "z = Softmax<axis = 2>(g)", "clip": "z = Clip<max = 1.0>(g)",
        "dropout": "z = Dropout<ratio = 0.3>(g)", "squeeze": "u = Unsqueeze<axes = [0]>(g) z = Squeeze<axes = [0]>(u)", "squeeze-all": "u = Unsqueeze<axes = [0]>(g) z = Squeeze(u)",
        "reduce-sum": "u = ReduceSum<axes = [-1]>(g) z = Add(g, u)", "reduce-all": "u = ReduceMean(g) z = Add(g, u)", "reduce-empty": "u = ReduceMax<axes = [1]>(g) z = Add(g, u)",
        "split": "u, v = Split<axis = -1, split = [4, 4]>(g) z = Concat<axis = -1>(v, u)", "split-equal": "u, v = Split<axis = -1>(g) z = Concat<axis = -1>(v, u)",
        "split-unequal": "u, v = Split<axis = -1, split = [3, 5]>(g) z = Concat<axis = -1>(v, u)", "pad": "z = Pad<pads = [0,0,0,0,0,0]>(g)",
        "hardmax": "z = Hardmax(g)", "cast": "u = Cast<to = 10>(g) z = Cast<to = 1>(u)", "top": "k = Constant<value = int64[1] {8}>() z, i = TopK(g, k)",
        "cum": "k = Constant<value = int32 {1}>() z = CumSum(g, k)", "where": "k = Greater(g, one) z = Where(k, g, x)", "max": "z = Max(g, x)", "equal": "k = Equal(g, x) z = Where(k, g, x)",
        "gather": "k = Constant<value = int64[1] {0}>() u = Gather<axis = 2>(g, k) z = Add(u, g)", "expand": "k = Shape(g) z = Expand(g, k)", "argmax": "u = ArgMax<axis = 2>(g) v = Cast<to = 1>(u) z = Add(v, g)",
        "pow": "z = Pow(g, two)", "leaky": "z = LeakyRelu(g)", "gemm": "k = Constant<value = int64[2] {-1, 8}>() u = Reshape(g, k) v = Gemm(u, wd) w = Shape(x) z = Reshape(v, w)",
        "batch-norm": "z = BatchNormalization(g, row, row, row, row)", "quantize": "u = QuantizeLinear(g, eps, xz) z = DequantizeLinear(u, eps, xz)", "isnan": "k = IsNaN(g) z = Where(k, x, g)",
        "if": "k = Constant<value = bool {1}>() z = If(k) <then_branch = t () => (float[b,s,8] k1) { k2 = ReduceMean<axes = [-1]>(g) k1 = Add(k2, g) }, else_branch = e () => (float[b,s,8] l) { l = Neg(g) }>",
    }.items():  # fmt: skip
        row = tensor("row", 8, values=[1, 2, 3, 4, 5, 6, 7, 8])
        constants = both(ERF, row, tensor("wd", 8, 8), "uint8 xz = {128}")
        for opset in (9, 11, 12, 13, 14, 17):
            yield edge(
                f"beside-{name}-{opset}",
                f"{gelu('x', 'g')} {beside} y = Add(z, x)",
                constants,
                opset=opset,
                outputs="float[p,q,r] y",
            )
