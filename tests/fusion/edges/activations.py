"""Edges of activations: right and wrong constants, every spelling, odd shapes of constants, uses of the pieces."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import ERF, TANH, both, gelu, tanh_gelu, tensor

TWO = "float[batch,seq,8] y, float[batch,seq,8] z"


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _erf_spellings()
    yield from _tanh_spellings()
    yield from _constants()
    yield from _uses()
    yield from _others()


def _erf_spellings() -> Iterator[Edge]:
    ends = {
        "plain": "a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
        "half-first": "a = Add(one, e) h = Mul(half, x) y = Mul(h, a)",
        "half-of-the-gate": "a = Add(e, one) m = Mul(a, half) y = Mul(m, x)",
        "by-two": "a = Add(e, one) m = Mul(x, a) y = Div(m, two)",
        "half-plus-half": "g = Mul(e, half) a = Add(half, g) y = Mul(a, x)",
        "minus-minus": "n = Neg(e) a = Sub(one, n) h = Mul(x, half) y = Mul(a, h)",
        "sub-negative": "a = Sub(e, minus) h = Div(x, two) y = Mul(a, h)",
    }
    starts = {
        "div": "d = Div(x, root) e = Erf(d)",
        "mul": "d = Mul(x, reciprocal) e = Erf(d)",
        "sqrt": "r = Sqrt(two) d = Div(x, r) e = Erf(d)",
        "mul-left": "d = Mul(reciprocal, x) e = Erf(d)",
        "constant-node": "r = Constant<value_float = 1.4142135>() d = Div(x, r) e = Erf(d)",
    }
    more = both(ERF, tensor("reciprocal", values=[0.70710677]), tensor("minus", values=[-1]))
    for start, first in starts.items():
        for end, second in ends.items():
            yield edge(f"erf-{start}-{end}", f"{first} {second}", more, fused="Gelu", opset=20)
    for opset in (13, 14, 17, 18, 20, 21, 22, 23, 24, 25, 26):
        yield edge(f"erf-opset-{opset}", gelu("x", "y"), ERF, fused="Gelu", opset=opset)


def _tanh_spellings() -> Iterator[Edge]:
    cubes = {
        "pow": "p = Pow(x, three) q = Mul(p, inner) r = Add(x, q)",
        "products": "s2 = Mul(x, x) p = Mul(s2, x) q = Mul(inner, p) r = Add(q, x)",
        "factored": "s2 = Mul(x, x) q = Mul(s2, inner) f = Add(q, one) r = Mul(x, f)",
        "factored-first": "q0 = Mul(inner, x) q = Mul(q0, x) f = Add(one, q) r = Mul(f, x)",
    }
    ends = {
        "plain": "s = Mul(r, outer) t = Tanh(s) a = Add(t, one) h = Mul(x, half) y = Mul(h, a)",
        "half-last": "s = Mul(outer, r) t = Tanh(s) a = Add(one, t) h = Mul(x, a) y = Mul(half, h)",
        "half-gate": "s = Mul(outer, r) t = Tanh(s) a = Add(one, t) h = Mul(half, a) y = Mul(x, h)",
    }
    for cube, first in cubes.items():
        for end, second in ends.items():
            operator = "FastGelu" if cube == "none" else None
            yield edge(f"tanh-{cube}-{end}", f"{first} {second}", TANH, fused=operator or "Gelu", opset=20)
    yield edge("tanh-opset-14", tanh_gelu("x", "y"), TANH, fused="Gelu", opset=14)
    sigmoid = "p = Pow(x, three) q = Mul(p, inner) r = Add(x, q) s = Mul(r, outer) g = Sigmoid(s) y = Mul(x, g)"
    twice = both(tensor("inner", values=[0.044715]), tensor("three", values=[3]), tensor("outer", values=[1.5957691]))
    yield edge("tanh-as-sigmoid", sigmoid, twice, fused="Gelu", opset=20)
    once = twice.replace("1.5957691", "0.7978846")
    yield edge("tanh-as-sigmoid-of-once", sigmoid, once, opset=20)


def _constants() -> Iterator[Edge]:
    for name, value in {"1.4142": "1.4142", "1.4": "1.4", "2": "2", "negative": "-1.4142135"}.items():
        yield edge(f"erf-root-{name}", gelu("x", "y"), ERF.replace("1.4142135", value), opset=20)
    yield edge("erf-half-0.49", gelu("x", "y"), ERF.replace("half = {0.5}", "half = {0.49}"), opset=20)
    yield edge("erf-half-0.5001", gelu("x", "y"), ERF.replace("half = {0.5}", "half = {0.5001}"), opset=20)
    yield edge("erf-one-1.001", gelu("x", "y"), ERF.replace("one = {1}", "one = {1.001}"), opset=20)
    for name, old, new in (
        ("0.79", "0.7978846", "0.79"),
        ("0.798", "0.7978846", "0.798"),
        ("0.04471", "0.044715", "0.04471"),
        ("0.0447", "0.044715", "0.0447"),
        ("3.0001", "three = {3}", "three = {3.0001}"),
        ("2.0", "three = {3}", "three = {2}"),
        ("half-0.49", "half = {0.5}", "half = {0.49}"),
        ("no-cube", "0.044715", "0.0"),
    ):
        yield edge(f"tanh-constant-{name}", tanh_gelu("x", "y"), TANH.replace(old, new), opset=20, scale=1.5)
    for shape in ((1,), (1, 1), (1, 1, 1)):
        text = f"[{','.join(map(str, shape))}]"
        yield edge(
            f"erf-half-of-rank-{len(shape)}",
            gelu("x", "y"),
            ERF.replace("float half", f"float{text} half"),
            opset=20,
            fused="Gelu",
        )
    wide = {"outputs": "float[o,batch,seq,8] y"}
    for constant in ("half", "one", "root"):
        of_rank_4 = ERF.replace(f"float {constant}", f"float[1,1,1,1] {constant}")
        yield edge(f"erf-{constant}-widens", gelu("x", "y"), of_rank_4, opset=20, **wide)
    for constant in ("half", "one", "inner", "outer", "three"):
        of_rank_4 = TANH.replace(f"float {constant}", f"float[1,1,1,1] {constant}")
        yield edge(f"tanh-{constant}-widens", tanh_gelu("x", "y"), of_rank_4, opset=20, **wide)
    swish = "t = Mul(x, alpha) s = Sigmoid(t) y = Mul(x, s)"
    yield edge("swish-alpha-widens", swish, tensor("alpha", 1, 1, 1, 1, values=[1.7]), **wide)
    yield edge("swish-alpha-row", swish, tensor("alpha", 8))
    for constant in ("half", "root", "one"):
        inputs = f"float[batch,seq,8] x, float {constant}"
        yield edge(f"erf-{constant}-overridable", gelu("x", "y"), ERF, inputs=inputs, opset=20)
    yield edge(
        "swish-alpha-overridable", swish, tensor("alpha", values=[1.7]), inputs="float[batch,seq,8] x, float alpha"
    )
    yield edge("swish-alpha-input", swish, inputs="float[batch,seq,8] x, float alpha")
    yield edge("swish-alpha-zero", swish, tensor("alpha", values=[0]))
    yield edge("swish-alpha-negative", swish, tensor("alpha", values=[-1.7]))
    yield edge("swish-alpha-huge", swish, tensor("alpha", values=[1e30]))
    cast = "c = Cast<to = 1>(rough) d = Div(x, c) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"
    for dtype in (ir.DataType.BFLOAT16, ir.DataType.FLOAT16, ir.DataType.DOUBLE):
        rough, fused = both(ERF, tensor("rough", values=[1.4142135])), "Gelu" if dtype == ir.DataType.DOUBLE else None
        name = f"erf-root-cast-from-{dtype.name.lower()}"
        yield edge(name, cast, rough, dtypes={"rough": dtype}, opset=20, fused=fused)
    for name, there in {"int64": 7, "half": 10, "bfloat16": 16}.items():
        through = f"k = Cast<to = {there}>(inner) c = Cast<to = 1>(k) " + tanh_gelu("x", "y").replace("inner", "c")
        yield edge(f"tanh-constant-through-{name}", through, TANH, opset=20)
    integers = "p = Pow(x, three) q = Mul(p, inner) r = Add(x, q) s = Mul(r, outer) t = Tanh(s) a = Add(t, one) h = Mul(x, half) y = Mul(h, a)"
    yield edge("tanh-integer-exponent", integers, TANH.replace("float three", "int64 three"), opset=20, fused="Gelu")
    for name, text in {"half": "float[8] half", "one": "float[8] one"}.items():
        row = both(ERF.replace(f"float {name} = {{{'0.5' if name == 'half' else '1'}}}", tensor(name, 8)))
        yield edge(f"erf-{text.split()[0]}-{name}-row", gelu("x", "y"), row, opset=20)


def _uses() -> Iterator[Edge]:
    for piece in ("gd", "ge", "ga", "gm"):
        yield edge(
            f"erf-{piece}-is-output",
            gelu("x", "y"),
            ERF,
            outputs=f"float[batch,seq,8] y, float[batch,seq,8] {piece}",
            opset=20,
        )
        yield edge(f"erf-{piece}-is-read", gelu("x", "y") + f" z = Abs({piece})", ERF, outputs=TWO, opset=20)
    for piece in ("tp", "tr", "tt", "ta", "th"):
        yield edge(f"tanh-{piece}-is-read", tanh_gelu("x", "y") + f" z = Abs({piece})", TANH, outputs=TWO, opset=20)
    yield edge("gelu-shared", gelu("x", "h") + " y = Abs(h) z = Neg(h)", ERF, outputs=TWO, opset=20, fused="Gelu")
    yield edge(
        "gelu-of-another-value",
        "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(w, a) y = Mul(m, half)",
        ERF,
        inputs="float[batch,seq,8] x, float[batch,seq,8] w",
        opset=20,
    )
    yield edge("gelu-of-a-product", "p = Mul(x, x) " + gelu("p", "y"), ERF, opset=20, fused="Gelu")
    yield edge("gelu-of-a-scaled", "p = Mul(x, two) " + gelu("p", "y"), ERF, opset=20, fused="Gelu")
    yield edge("gelu-of-half", "p = Mul(x, half) " + gelu("p", "y"), ERF, opset=20, fused="Gelu")
    yield edge("gelu-scaled-after", gelu("x", "p") + " y = Mul(p, two)", ERF, opset=20)
    yield edge("gelu-of-gelu", gelu("x", "p", "a") + gelu("p", "y", "b"), ERF, opset=20, fused="Gelu")
    yield edge("gelu-times-x", gelu("x", "p") + " y = Mul(p, x)", ERF, opset=20)
    yield edge(
        "erf-of-square",
        "q = Mul(x, x) d = Div(q, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
        ERF,
        opset=20,
    )
    yield edge(
        "erf-minus-one", "d = Div(x, root) e = Erf(d) a = Sub(e, one) m = Mul(x, a) y = Mul(m, half)", ERF, opset=20
    )
    yield edge(
        "one-minus-erf", "d = Div(x, root) e = Erf(d) a = Sub(one, e) m = Mul(x, a) y = Mul(m, half)", ERF, opset=20
    )
    yield edge(
        "x-over-gate",
        "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Div(x, a) y = Mul(m, half)",
        ERF,
        opset=20,
        scale=0.1,
    )


def _others() -> Iterator[Edge]:
    for kind in ("tanh", "none"):
        yield edge(f"gelu-{kind}", f'y = Gelu<approximate = "{kind}">(x)', opset=20, fused="Gelu")
        body = f'm = MatMul(x, w) b = Add(m, bias) y = Gelu<approximate = "{kind}">(b)'
        fused = "BiasGelu" if kind == "none" else "FastGelu"
        yield edge(f"bias-gelu-{kind}", body, both(tensor("w", 8, 8), tensor("bias", 8)), opset=20, fused=fused)
    yield edge("silu", "s = Sigmoid(x) y = Mul(s, x)", fused="QuickGelu")
    yield edge("silu-div", "n = Neg(x) e = Exp(n) d = Add(e, one) y = Div(x, d)", ERF, fused="QuickGelu")
    yield edge(
        "silu-div-widens",
        "n = Neg(x) e = Exp(n) d = Add(e, one) y = Div(x, d)",
        tensor("one", 1, 1, 1, 1, values=[1]),
        outputs="float[o,batch,seq,8] y",
    )
    yield edge("silu-div-two", "n = Neg(x) e = Exp(n) d = Add(e, two) y = Div(x, d)", ERF)
    yield edge("silu-not-negated", "e = Exp(x) d = Add(e, one) y = Div(x, d)", ERF)
    yield edge("silu-of-another", "s = Sigmoid(w) y = Mul(s, x)", inputs="float[batch,seq,8] x, float[batch,seq,8] w")
    yield edge("silu-squared", "s = Sigmoid(x) q = Mul(x, x) y = Mul(s, q)")
    yield edge("sigmoid-squared", "s = Sigmoid(x) q = Mul(s, s) y = Mul(x, q)")
    yield edge("sigmoid-of-sum", "t = Add(x, one) s = Sigmoid(t) y = Mul(x, s)", ERF)
    yield edge("sigmoid-divides", "s = Sigmoid(x) y = Div(x, s)")
    for opset in (18, 20, 21, 22, 23, 24, 25, 26):
        yield edge(f"mish-opset-{opset}", "p = Softplus(x) t = Tanh(p) y = Mul(x, t)", opset=opset)
        clip = "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)"
        constants = both(tensor("three", values=[3]), tensor("zero", values=[0]), tensor("six", values=[6]))
        yield edge(f"hard-swish-opset-{opset}", clip, constants, opset=opset)
        yield edge(f"swish-opset-{opset}", "s = Sigmoid(x) y = Mul(x, s)", opset=opset, fused="QuickGelu")
    yield edge("hard-swish-5", clip, constants.replace("{6}", "{5}"))
    yield edge("hard-swish-no-max", "a = Add(x, three) c = Clip(a, zero) m = Mul(x, c) y = Div(m, six)", constants)
    yield edge("hard-sigmoid-swish", "c = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, c)")
    yield edge("hard-sigmoid-default", "c = HardSigmoid(x) y = Mul(x, c)")
    yield edge(
        "hard-sigmoid-of-clip-widens",
        clip,
        both(tensor("three", 1, 1, 1, 1, values=[3]), tensor("zero", values=[0]), tensor("six", values=[6])),
        outputs="float[o,batch,seq,8] y",
    )
    for dtype in (ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16):
        kind = dtype.name.lower()
        yield edge(f"erf-{kind}", gelu("x", "y"), ERF, dtype=dtype, opset=20)
        yield edge(f"tanh-{kind}", tanh_gelu("x", "y"), TANH, dtype=dtype, opset=20)
        yield edge(f"silu-{kind}", "s = Sigmoid(x) y = Mul(x, s)", dtype=dtype, opset=20)
        yield edge(f"mish-{kind}", "p = Softplus(x) t = Tanh(p) y = Mul(x, t)", dtype=dtype, opset=20)
    yield edge(
        "erf-between-casts",
        "c = Cast<to = 1>(x) " + gelu("c", "g") + " y = Cast<to = 10>(g)",
        ERF,
        inputs="float16[batch,seq,8] x",
        outputs="float16[batch,seq,8] y",
        opset=20,
    )
    for rank, shape in {"1": "8", "2": "batch,8", "4": "batch,seq,h,8", "5": "a,b,c,d,8"}.items():
        yield edge(
            f"erf-rank-{rank}",
            gelu("x", "y"),
            ERF,
            inputs=f"float[{shape}] x",
            outputs=f"float[{shape}] y",
            opset=20,
            fused="Gelu",
        )
    yield edge("erf-scalar", gelu("x", "y"), ERF, inputs="float x", outputs="float y", opset=20)
    yield edge(
        "erf-scalar-constants-of-rank-1",
        gelu("x", "y"),
        ERF.replace("float half", "float[1] half"),
        inputs="float x",
        outputs="float[1] y",
        opset=20,
    )
    yield edge("gelu-unknown-attribute", 'y = Gelu<approximate = "none", other = 3>(x)', opset=20)
    yield edge(
        "ort-gelu-before",
        "m = MatMul(x, w) a = Add(m, b) y = com.microsoft.Gelu(a)",
        both(tensor("w", 8, 8), tensor("b", 8)),
        domains=["com.microsoft"],
        opset=20,
        fused="BiasGelu",
    )
    yield edge(
        "ort-fast-gelu-with-bias",
        "y = com.microsoft.FastGelu(x, b)",
        tensor("b", 8),
        domains=["com.microsoft"],
        opset=20,
    )
    yield edge(
        "ort-fast-gelu-after-add",
        "a = Add(x, c) y = com.microsoft.FastGelu(a, b)",
        both(tensor("b", 8), tensor("c", 8)),
        domains=["com.microsoft"],
        opset=20,
    )
    yield edge("ort-quick-gelu-default", "y = com.microsoft.QuickGelu(x)", domains=["com.microsoft"], opset=20)
