"""Edges of feed-forwards: products and weights in every form, gates, halves, biases."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import AFFINE, ERF, TANH, WEIGHTS, both, gelu, tanh_gelu, tensor

ACTIVATIONS = {
    "relu": "h = Relu(a)",
    "tanh": "h = Tanh(a)",
    "leaky": "h = LeakyRelu<alpha = 0.2>(a)",
    "leaky-default": "h = LeakyRelu(a)",
    "elu": "h = Elu(a)",
    "elu-2": "h = Elu<alpha = 2.0>(a)",
    "gelu": gelu("a", "h"),
    "gelu-tanh": tanh_gelu("a", "h"),
    "silu": "s = Sigmoid(a) h = Mul(a, s)",
    "quick": "k = Mul(a, slope) s = Sigmoid(k) h = Mul(a, s)",
    "relu-squared": "k = Relu(a) h = Mul(k, k)",
    "relu-squared-pow": "k = Relu(a) h = Pow(k, two)",
    "mish": "k = Softplus(a) s = Tanh(k) h = Mul(a, s)",
    "selu": "h = Selu(a)",
    "sigmoid": "h = Sigmoid(a)",
    "softplus": "h = Softplus(a)",
    "none": "h = Identity(a)",
    "prelu": "h = PRelu(a, b1)",
    "clip": "h = Clip(a, half, two)",
    "hard-sigmoid": "h = HardSigmoid(a)",
    "celu": "h = Celu<alpha = 0.5>(a)",
    "thresholded": "h = ThresholdedRelu<alpha = 0.5>(a)",
    "softsign": "h = Softsign(a)",
}
CONSTANTS = both(WEIGHTS, ERF, ", ".join(TANH.split(", ")[:3]), tensor("slope", values=[1.702]))
FF = "m = MatMul(x, w1) a = Add(m, b1) {0} n = MatMul(h, w2) y = Add(n, b2)"
GELU = gelu("a", "h")
FLAT = {"inputs": "float[n,8] x", "outputs": "float[n,8] y"}


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _plain()
    yield from _weights()
    yield from _biases()
    yield from _gemm()
    yield from _gated()


def _plain() -> Iterator[Edge]:
    for name, act in ACTIVATIONS.items():
        yield edge(f"ff-{name}", FF.format(act), CONSTANTS, opset=20)
        yield edge(
            f"ff-{name}-no-bias", FF.format(act).replace("a = Add(m, b1)", "a = Identity(m)"), CONSTANTS, opset=18
        )
        gemm = f"a = Gemm(x, w1, b1) {act} y = Gemm(h, w2, b2)"
        yield edge(f"ff-{name}-gemm", gemm, CONSTANTS, opset=20, **FLAT)
        yield edge(f"ff-{name}-half", FF.format(act), CONSTANTS, opset=20, dtype=ir.DataType.FLOAT16)
        yield edge(f"ff-{name}-double", FF.format(act), CONSTANTS, opset=20, dtype=ir.DataType.DOUBLE)
        for opset in (13, 14, 17):
            yield edge(f"ff-{name}-opset-{opset}", FF.format(act), CONSTANTS, opset=opset)
    for rank, shape in {"1": "8", "2": "n,8", "4": "a,b,c,8", "5": "a,b,c,d,8"}.items():
        for name in ("relu", "gelu", "silu"):
            typed = {"inputs": f"float[{shape}] x", "outputs": f"float[{shape}] y"}
            yield edge(f"ff-{name}-rank-{rank}", FF.format(ACTIVATIONS[name]), CONSTANTS, opset=20, **typed)
    for name in ("relu", "gelu", "silu"):
        body = FF.format(ACTIVATIONS[name])
        for piece in ("m", "a", "h"):
            two = f"float[batch,seq,8] y, float[batch,seq,16] {piece}"
            yield edge(f"ff-{name}-{piece}-is-output", body, CONSTANTS, opset=20, outputs=two)
            yield edge(
                f"ff-{name}-{piece}-is-read",
                body + f" z = Neg({piece})",
                CONSTANTS,
                opset=20,
                outputs=two.replace(f" {piece}", " z"),
            )
        flag = {"inputs": "float[batch,seq,8] x, bool c", "outputs": "float[batch,seq,8] y, float[batch,seq,16] z"}
        inner = " z = If(c) <then_branch = t () => (float[b,s,16] k) { k = Abs(a) }, else_branch = e () => (float[b,s,16] l) { l = Neg(a) }>"
        yield edge(f"ff-{name}-sum-in-if", body + inner, CONSTANTS, opset=20, **flag)
        shared = body + " n2 = MatMul(h, w2) z = Add(n2, x)"
        yield edge(
            f"ff-{name}-activation-shared",
            shared,
            CONSTANTS,
            opset=20,
            outputs="float[batch,seq,8] y, float[batch,seq,8] z",
        )
        layers = FF.format(ACTIVATIONS[name]).replace("y =", "x2 =")
        second = FF.format(ACTIVATIONS[name])
        for value in ("m", "a", "h", "n", "s", "k", "gd", "ge", "ga", "gm"):
            second = (
                second.replace(f"{value} =", f"{value}2 =")
                .replace(f"({value},", f"({value}2,")
                .replace(f", {value})", f", {value}2)")
                .replace(f"({value})", f"({value}2)")
            )
        yield edge(f"ff-{name}-weights-shared", layers + " " + second.replace("(x,", "(x2,"), CONSTANTS, opset=20)


def _weights() -> Iterator[Edge]:
    rest = "a = Add(m, b1) h = Relu(a) y = MatMul(h, w2)"
    more = both(
        CONSTANTS,
        tensor("wt", 16, 8),
        tensor("wb", 1, 8, 16),
        tensor("wf", 128),
        "int64[2] shape = {8, 16}",
        tensor("wd", 8, 8),
    )
    for name, first in {
        "transpose": "w = Transpose<perm = [1, 0]>(wt) m = MatMul(x, w)",
        "transpose-default": "w = Transpose(wt) m = MatMul(x, w)",
        "identity": "w = Identity(w1) m = MatMul(x, w)",
        "identity-twice": "v = Identity(w1) w = Identity(v) m = MatMul(x, w)",
        "reshape": "w = Reshape(wf, shape) m = MatMul(x, w)",
        "batched": "m = MatMul(x, wb)",
        "cast": "v = Cast<to = 10>(w1) w = Cast<to = 1>(v) m = MatMul(x, w)",
        "squeeze": "w = Squeeze(wb) m = MatMul(x, w)",
        "scaled": "w = Mul(w1, two) m = MatMul(x, w)",
    }.items():
        for activation in ("Relu(a)", "Tanh(a)"):
            yield edge(
                f"weight-{name}-{activation[:4]}",
                f"{first} {rest}".replace("Relu(a)", activation),
                more,
                opset=20,
                fused="FusedGemm" if name == "batched" else None,
            )
        yield edge(
            f"weight-{name}-gelu", f"{first} {rest}".replace("h = Relu(a)", GELU), more, opset=20, fused="BiasGelu"
        )
    yield edge(
        "weight-on-the-left",
        "m = MatMul(wd, x) a = Add(m, b2) y = Relu(a)",
        more,
        inputs="float[8,8] x",
        outputs="float[8,8] y",
    )
    yield edge(
        "weight-on-the-left-3d",
        "m = MatMul(wd, x) a = Add(m, b2) h = Relu(a) y = MatMul(h, wd)",
        more,
        inputs="float[batch,8,8] x",
        outputs="float[batch,8,8] y",
    )
    batched = f"m = MatMul(x, wb) {rest}"
    yield edge(
        "weight-batched-gated",
        "g = MatMul(x, wb) t = Sigmoid(g) u = MatMul(x, wb) h = Mul(t, u) y = MatMul(h, w2)",
        more,
    )
    yield edge("weight-batched-of-matrix", batched, more, inputs="float[n,8] x", outputs="float[o,n,8] y")
    yield edge("weight-batched-of-vector", batched, more, inputs="float[8] x", outputs="float[o,8] y")
    yield edge(
        "weight-batched-of-both",
        batched + " z = MatMul(v, wb)",
        more,
        inputs="float[batch,seq,8] x, float[n,8] v",
        outputs="float[batch,seq,8] y, float[o,n,16] z",
    )
    yield edge(
        "weight-batched-and-read", batched + " z = Neg(wb)", more, outputs="float[batch,seq,8] y, float[1,8,16] z"
    )
    yield edge("weight-batched-is-output", batched, more, outputs="float[batch,seq,8] y, float[1,8,16] wb")
    yield edge("weight-batched-overridable", batched, more, inputs="float[batch,seq,8] x, float[1,8,16] wb")
    four = batched.replace("(x, wb)", "(x, w4)")
    yield edge("weight-batched-twice", four, both(more, tensor("w4", 1, 1, 8, 16)), outputs="float[o,batch,seq,8] y")
    yield edge(
        "weight-batched-twice-of-4d",
        four,
        both(more, tensor("w4", 1, 1, 8, 16)),
        fused="FusedGemm",
        inputs="float[a,b,c,8] x",
        outputs="float[a,b,c,8] y",
    )
    yield edge(
        "weight-batch-of-two",
        batched,
        both(more.replace("wb", "wc"), tensor("wb", 2, 8, 16)),
        inputs="float[2,seq,8] x",
    )
    inputs = "float[batch,seq,8] x, float[8,16] w1"
    yield edge("weight-overridable", f"m = MatMul(x, w1) {rest}", more, inputs=inputs)
    yield edge("weight-input", f"m = MatMul(x, w) {rest}", more, inputs="float[batch,seq,8] x, float[8,16] w")
    yield edge(
        "weight-transposed-overridable",
        f"w = Transpose(wt) m = MatMul(x, w) {rest}",
        more,
        inputs="float[batch,seq,8] x, float[16,8] wt",
    )
    yield edge(
        "weight-transposed-and-read",
        f"w = Transpose(wt) m = MatMul(x, w) {rest} z = Neg(wt)",
        more,
        outputs="float[batch,seq,8] y, float[16,8] z",
    )
    yield edge("weight-is-output", f"m = MatMul(x, w1) {rest}", more, outputs="float[batch,seq,8] y, float[8,16] w1")
    yield edge(
        "weight-identity-is-output",
        f"w = Identity(w1) m = MatMul(x, w) {rest}",
        more,
        outputs="float[batch,seq,8] y, float[8,16] w",
    )
    quantised = both(
        CONSTANTS,
        tensor("wq", 8, 16, kind="int8", values=[k % 7 - 3 for k in range(128)]),
        tensor("qs", values=[0.1]),
        "int8 qz = {0}",
        tensor("xs", values=[0.05]),
        "uint8 xz = {128}",
    )
    yield edge("weight-dequantised", f"w = DequantizeLinear(wq, qs, qz) m = MatMul(x, w) {rest}", quantised)
    yield edge(
        "qdq",
        f"q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) w = DequantizeLinear(wq, qs, qz) m = MatMul(d, w) {rest}",
        quantised,
    )
    yield edge(
        "qdq-after-bias",
        "m = MatMul(x, w1) a = Add(m, b1) q = QuantizeLinear(a, xs, xz) d = DequantizeLinear(q, xs, xz) h = Relu(d) y = MatMul(h, w2)",
        quantised,
    )
    yield edge(
        "fused-matmul", f"m = com.microsoft.FusedMatMul<alpha = 2.0>(x, w1) {rest}", more, domains=["com.microsoft"]
    )
    yield edge(
        "fused-matmul-gelu",
        f"m = com.microsoft.FusedMatMul<transB = 1>(x, wt) a = Add(m, b1) {GELU} y = MatMul(h, w2)",
        more,
        domains=["com.microsoft"],
        opset=20,
    )
    yield edge(
        "matmul-of-vector",
        "m = MatMul(x, v) a = Add(m, one) y = Relu(a)",
        both(CONSTANTS, tensor("v", 8)),
        outputs="float[batch,seq] y",
    )
    yield edge(
        "matmul-of-two-inputs",
        "m = MatMul(x, z) a = Add(m, b2) y = Relu(a)",
        CONSTANTS,
        inputs="float[batch,seq,8] x, float[8,8] z",
    )


def _biases() -> Iterator[Edge]:
    for name, sizes in {
        "scalar": (),
        "1": (1,),
        "1-1-f": (1, 1, 16),
        "1-f": (1, 16),
        "1-1-1-f": (1, 1, 1, 16),
        "3-f": (3, 16),
        "3-1": (3, 1),
        "2-1-1": (2, 1, 1),
        "1-1": (1, 1),
        "1-1-1-1": (1, 1, 1, 1),
    }.items():
        for act in ("relu", "gelu", "silu", "gelu-tanh"):
            shape = "o,p,q,8" if len(sizes) == 4 else "p,q,8"
            constants = both(CONSTANTS, tensor("c", *sizes))
            body = FF.format(ACTIVATIONS[act]).replace("b1)", "c)")
            yield edge(
                f"bias-{name}-{act}", body, constants, opset=20, inputs="float[2,3,8] x", outputs=f"float[{shape}] y"
            )
            yield edge(
                f"bias-{name}-{act}-flat",
                body,
                constants,
                opset=20,
                inputs="float[3,8] x",
                outputs=f"float[{shape}] y" if len(sizes) > 2 else "float[p,8] y",
            )
    for act in ("relu", "gelu", "silu"):
        body = FF.format(ACTIVATIONS[act]).replace("b1)", "c)")
        yield edge(f"bias-input-{act}", body, CONSTANTS, inputs="float[batch,seq,8] x, float[16] c", opset=20)
        yield edge(f"bias-input-unknown-{act}", body, CONSTANTS, inputs="float[batch,seq,8] x, float[k] c", opset=20)
        yield edge(
            f"bias-per-token-{act}", body, CONSTANTS, inputs="float[batch,seq,8] x, float[batch,seq,16] c", opset=20
        )
        yield edge(
            f"bias-overridable-{act}",
            FF.format(ACTIVATIONS[act]),
            CONSTANTS,
            inputs="float[batch,seq,8] x, float[16] b1",
            opset=20,
        )
        two = FF.format(ACTIVATIONS[act]).replace("a = Add(m, b1)", "k0 = Add(m, b1) a = Add(k0, b1)")
        yield edge(f"bias-twice-{act}", two, CONSTANTS, opset=20)
        residual = FF.format(ACTIVATIONS[act]).replace("a = Add(m, b1)", "m2 = MatMul(x, w1) a = Add(m, m2)")
        yield edge(f"residual-before-{act}", residual, CONSTANTS, opset=20)
        reshaped = (
            FF.format(ACTIVATIONS[act])
            .replace("a = Add(m, b1)", "f = Add(m, b1) a = Reshape(f, rows)")
            .replace("n = MatMul", "n0 = Reshape(h, back) n = MatMul")
            .replace("(h, w2)", "(n0, w2)")
        )
        yield edge(
            f"reshape-after-bias-{act}",
            reshaped,
            both(CONSTANTS, "int64[2] rows = {-1, 16}, int64[3] back = {2, 3, 16}"),
            opset=20,
            inputs="float[2,3,8] x",
        )
        split = reshaped.replace("rows", "cut")
        yield edge(
            f"split-after-bias-{act}",
            split,
            both(CONSTANTS, "int64[2] cut = {-1, 4}, int64[3] back = {2, 3, 16}"),
            opset=20,
            inputs="float[2,3,8] x",
        )
        cast = FF.format(ACTIVATIONS[act]).replace(
            "a = Add(m, b1)", "k0 = Add(m, b1) k1 = Cast<to = 10>(k0) a = Cast<to = 1>(k1)"
        )
        yield edge(f"cast-after-bias-{act}", cast, CONSTANTS, opset=20)
        sub = FF.format(ACTIVATIONS[act]).replace("Add(m, b1)", "Sub(m, b1)")
        yield edge(f"bias-subtracted-{act}", sub, CONSTANTS, opset=20)
        same = FF.format(ACTIVATIONS[act]).replace("Add(m, b1)", "Add(m, m)")
        yield edge(f"product-doubled-{act}", same, CONSTANTS, opset=20)
        late = FF.format(ACTIVATIONS[act]).replace(
            "a = Add(m, b1)", "c = ReduceMax<keepdims = 0>(m, front) a = Add(m, c)"
        )
        yield edge(f"bias-computed-from-product-{act}", late, both(CONSTANTS, "int64[2] front = {0, 1}"), opset=20)


def _gemm() -> Iterator[Edge]:
    constants = both(
        CONSTANTS,
        tensor("wt", 16, 8),
        tensor("c1", 1),
        tensor("cm", 3, 1),
        tensor("cn", 1, 16),
        tensor("cmn", 3, 16),
        tensor("cs"),
        tensor("c3", 2, 1, 16),
        "int64[1] front = {0}",
    )
    fused = {
        name: {"relu": "FusedGemm", "gelu": "BiasGelu", "silu": "Gemm QuickGelu"}
        for name in ("no-c-then-bias", "alpha-then-bias", "trans-b-then-bias")
    }
    for act in ("relu", "gelu", "silu"):
        tail = f"{ACTIVATIONS[act]} y = MatMul(h, w2)"
        for name, first in {
            "alpha": "a = Gemm<alpha = 0.5>(x, w1, b1)",
            "beta": "a = Gemm<beta = 2.0>(x, w1, b1)",
            "beta-0": "a = Gemm<beta = 0.0>(x, w1, b1)",
            "trans-b": "a = Gemm<transB = 1>(x, wt, b1)",
            "no-c": "a = Gemm(x, w1)",
            "c-1": "a = Gemm(x, w1, c1)",
            "c-m": "a = Gemm(x, w1, cm)",
            "c-n": "a = Gemm(x, w1, cn)",
            "c-mn": "a = Gemm(x, w1, cmn)",
            "c-scalar": "a = Gemm(x, w1, cs)",
            "then-bias": "k0 = Gemm(x, w1, b1) a = Add(k0, b1)",
            "no-c-then-bias": "k0 = Gemm(x, w1) a = Add(k0, b1)",
            "alpha-then-bias": "k0 = Gemm<alpha = 0.5>(x, w1) a = Add(k0, b1)",
            "trans-b-then-bias": "k0 = Gemm<transB = 1, beta = 0.0>(x, wt) a = Add(b1, k0)",
            "no-c-then-rows": "k0 = Gemm(x, w1) a = Add(k0, cm)",
            "no-c-then-matrix": "k0 = Gemm(x, w1) a = Add(k0, cmn)",
            "no-c-then-3d": "k0 = Gemm(x, w1) a0 = Add(k0, c3) a = ReduceMax<keepdims = 0>(a0, front)",
        }.items():
            yield edge(
                f"gemm-{name}-{act}",
                f"{first} {tail}",
                constants,
                fused=fused.get(name, {}).get(act),
                opset=20,
                inputs="float[3,8] x",
                outputs="float[3,8] y",
            )
        trans_a = f"a = Gemm<transA = 1>(x, w1, b1) {tail}"
        yield edge(f"gemm-trans-a-{act}", trans_a, constants, opset=20, inputs="float[8,n] x", outputs="float[n,8] y")
        yield edge(
            f"gemm-weight-input-{act}",
            f"a = Gemm(x, w, b1) {tail}",
            constants,
            opset=20,
            inputs="float[n,8] x, float[8,16] w",
            outputs="float[n,8] y",
        )
    pair = "m = Gemm(x, w1, b1) h = Relu(m) k = Gemm(h, w2, b2) a = Add(k, x) y = LayerNormalization(a, scale, shift)"
    yield edge("gemm-layer", pair, both(constants, AFFINE), fused="SkipLayerNormalization", **FLAT)
    legacy = FF.format(ACTIVATIONS["relu"])
    yield edge("opset-7", legacy, CONSTANTS, opset=7)
    yield edge("opset-9", legacy, CONSTANTS, opset=9)
    yield edge("opset-11", legacy, CONSTANTS, opset=11)
    broadcast = "m = MatMul(x, w1) a = Add<axis = 1, broadcast = 1>(m, b) h = Relu(a) y = MatMul(h, w2)"
    yield edge(
        "opset-6-broadcast",
        broadcast,
        both(CONSTANTS, tensor("b", 16)),
        opset=6,
        inputs="float[2,16,8] x",
        outputs="float[2,16,8] y",
    )
    gemm6 = "a = Gemm<broadcast = 1>(x, w1, b1) h = Relu(a) y = MatMul(h, w2)"
    yield edge("opset-6-gemm", gemm6, CONSTANTS, opset=6, **FLAT)


def _gated() -> Iterator[Edge]:
    weights = both(
        CONSTANTS, tensor("wg", 8, 16), tensor("wu", 8, 16), tensor("bg", 16), tensor("wp", 8, 32), tensor("bp", 32)
    )
    more = both(
        weights,
        "int64[2] halves = {16, 16}, int64[2] unequal = {12, 20}, int64[1] zero = {0}, int64[1] mid = {16}, int64[1] end = {32}, int64[1] ax = {2}, int64[1] neg = {-1}, int64[1] minus = {-1}, int64[1] low = {-33}, int64[1] top = {9223372036854775807}",
    )
    down = "y = MatMul(h, w2)"
    acts = {
        "silu": "s = Sigmoid(g) t = Mul(g, s)",
        "gelu": gelu("g", "t"),
        "relu": "t = Relu(g)",
        "sigmoid": "t = Sigmoid(g)",
        "none": "t = Identity(g)",
    }
    for name, act in acts.items():
        yield edge(f"gated-{name}", f"g = MatMul(x, wg) u = MatMul(x, wu) {act} h = Mul(t, u) {down}", more, opset=20)
        yield edge(
            f"gated-{name}-swapped", f"u = MatMul(x, wu) g = MatMul(x, wg) {act} h = Mul(u, t) {down}", more, opset=20
        )
        yield edge(
            f"gated-{name}-biased",
            f"g0 = MatMul(x, wg) g = Add(g0, bg) u0 = MatMul(x, wu) u = Add(u0, b1) {act} h = Mul(t, u) {down}",
            more,
            opset=20,
        )
        yield edge(
            f"gated-{name}-two-inputs",
            f"g = MatMul(x, wg) u = MatMul(z, wu) {act} h = Mul(t, u) {down}",
            more,
            opset=20,
            inputs="float[batch,seq,8] x, float[batch,seq,8] z",
        )
        yield edge(f"gated-{name}-of-itself", f"g = MatMul(x, wg) {act} h = Mul(t, g) {down}", more, opset=20)
        yield edge(
            f"gated-{name}-activation-read",
            f"g = MatMul(x, wg) u = MatMul(x, wu) {act} h = Mul(t, u) {down} z = Neg(t)",
            more,
            opset=20,
            outputs="float[batch,seq,8] y, float[batch,seq,16] z",
        )
        for split, cut in {
            "split": "g, u = Split<axis = -1, num_outputs = 2>(p)",
            "split-swapped": "u, g = Split<axis = -1, num_outputs = 2>(p)",
            "split-sizes": "g, u = Split<axis = 2>(p, halves)",
            "split-axis-2": "g, u = Split<axis = 2, num_outputs = 2>(p)",
            "slice": "g = Slice(p, zero, mid, ax) u = Slice(p, mid, end, ax)",
            "slice-negative": "g = Slice(p, zero, mid, neg) u = Slice(p, mid, top, neg)",
            "slice-overlap": "g = Slice(p, zero, mid, ax) u = Slice(p, zero, mid, ax)",
            "slice-reversed": "g = Slice(p, zero, mid, ax) u0 = Slice(p, top, low, ax, minus) u = Slice(u0, zero, mid, ax)",
        }.items():
            body = f"p0 = MatMul(x, wp) p = Add(p0, bp) {cut} {act} h = Mul(t, u) {down}"
            yield edge(f"packed-{split}-{name}", body, more, opset=20)
            yield edge(
                f"packed-{split}-{name}-no-bias", body.replace("p = Add(p0, bp)", "p = Identity(p0)"), more, opset=20
            )
        both_halves = f"p0 = MatMul(x, wp) p = Add(p0, bp) g, u = Split<axis = -1, num_outputs = 2>(p) {act} v = Relu(u) h = Mul(t, v) {down}"
        yield edge(f"packed-both-activated-{name}", both_halves, more, opset=20)
    yield edge(
        "packed-split-input",
        "p0 = MatMul(x, wp) p = Add(p0, bp) g, u = Split<axis = -1>(p, sizes) t = Relu(g) h = Mul(t, u) y = MatMul(h, w2)",
        more,
        opset=20,
        inputs="float[batch,seq,8] x, int64[2] sizes",
        scale=1,
    )
    yield edge(
        "packed-unequal",
        "p0 = MatMul(x, wp) p = Add(p0, bp) g, u = Split<axis = -1>(p, unequal) t = Relu(g) y = Relu(u)",
        more,
        outputs="float[batch,seq,20] y",
        opset=20,
    )
    yield edge(
        "packed-attribute-split",
        "p0 = MatMul(x, wp) p = Add(p0, bp) g, u = Split<axis = -1, split = [16, 16]>(p) "
        + gelu("g", "t")
        + " h = Mul(t, u) y = MatMul(h, w2)",
        more,
        opset=11,
    )
