"""Edges of graphs as such: names, orders, values that are read elsewhere, opsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
from onnx import TensorProto, helper

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import ERF, both, gelu, tensor
from tests.fusion.edges.texts import CONSTANTS, LAYER, RELU, changed


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _names()
    yield from _values()
    yield from _opsets()


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
        "sequence-of-parts",
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
    yield edge("initializer-is-output", gelu("x", "y"), ERF, outputs="float[batch,seq,8] y, float half", opset=20)
    yield edge("input-unread", gelu("x", "y"), ERF, inputs="float[batch,seq,8] x, float[3] z", opset=20)
    yield edge("node-unread", gelu("x", "y") + " z = Neg(y)", ERF, opset=20)
    yield edge("unread-reader-of-a-piece", gelu("x", "y") + " z = Neg(ga)", ERF, opset=20)
    yield edge("initializer-unread", gelu("x", "y"), both(ERF, tensor("nobody", 8)), opset=20)
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
        "softmax-axis-1": "z = Softmax(g)",
        "softmax-last": "z = Softmax<axis = -1>(g)",
        "softmax-2": "z = Softmax<axis = 2>(g)",
        "clip": "z = Clip<max = 1.0>(g)",
        "dropout": "z = Dropout<ratio = 0.3>(g)",
        "squeeze": "u = Unsqueeze<axes = [0]>(g) z = Squeeze<axes = [0]>(u)",
        "squeeze-all": "u = Unsqueeze<axes = [0]>(g) z = Squeeze(u)",
        "reduce-sum": "u = ReduceSum<axes = [-1]>(g) z = Add(g, u)",
        "reduce-all": "u = ReduceMean(g) z = Add(g, u)",
        "reduce-empty": "u = ReduceMax<axes = [1]>(g) z = Add(g, u)",
        "split": "u, v = Split<axis = -1, split = [4, 4]>(g) z = Concat<axis = -1>(v, u)",
        "split-equal": "u, v = Split<axis = -1>(g) z = Concat<axis = -1>(v, u)",
        "split-unequal": "u, v = Split<axis = -1, split = [3, 5]>(g) z = Concat<axis = -1>(v, u)",
        "pad": "z = Pad<pads = [0,0,0,0,0,0]>(g)",
        "hardmax": "z = Hardmax(g)",
        "cast": "u = Cast<to = 10>(g) z = Cast<to = 1>(u)",
        "top": "k = Constant<value = int64[1] {8}>() z, i = TopK(g, k)",
        "cum": "k = Constant<value = int32 {1}>() z = CumSum(g, k)",
        "where": "k = Greater(g, one) z = Where(k, g, x)",
        "max": "z = Max(g, x)",
        "equal": "k = Equal(g, x) z = Where(k, g, x)",
        "gather": "k = Constant<value = int64[1] {0}>() u = Gather<axis = 2>(g, k) z = Add(u, g)",
        "expand": "k = Shape(g) z = Expand(g, k)",
        "argmax": "u = ArgMax<axis = 2>(g) v = Cast<to = 1>(u) z = Add(v, g)",
        "pow": "z = Pow(g, two)",
        "leaky": "z = LeakyRelu(g)",
        "gemm": "k = Constant<value = int64[2] {-1, 8}>() u = Reshape(g, k) v = Gemm(u, wd) w = Shape(x) z = Reshape(v, w)",
        "batch-norm": "z = BatchNormalization(g, row, row, row, row)",
        "quantize": "u = QuantizeLinear(g, eps, xz) z = DequantizeLinear(u, eps, xz)",
        "isnan": "k = IsNaN(g) z = Where(k, x, g)",
        "if": "k = Constant<value = bool {1}>() z = If(k) <then_branch = t () => (float[b,s,8] k1) { k2 = ReduceMean<axes = [-1]>(g) k1 = Add(k2, g) }, else_branch = e () => (float[b,s,8] l) { l = Neg(g) }>",
    }.items():
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
