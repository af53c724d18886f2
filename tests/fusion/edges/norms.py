"""Edges of norms: operators and decomposed nodes, epsilons, axes, scales and biases of every shape."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import AFFINE, ERF, both, layer_norm, rms, tensor

LN, RMS = "LayerNormalization", "RMSNormalization"
SKIP, SKIP_RMS = "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"
ROWS = both(ERF, AFFINE)
FOUR = {"inputs": "float[batch,seq,4,8] x", "outputs": "float[batch,seq,4,8] y"}
TWO = "float[batch,seq,8] x, float[batch,seq,8] r"


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _operators()
    yield from _layer_norm_spellings()
    yield from _rms_spellings()
    yield from _no_norms()
    yield from _affine()
    yield from _uses()
    yield from _half()


def _operators() -> Iterator[Edge]:
    add = "a = Add(x, r)"
    for name, attributes, fused in (
        ("default", "", True),
        ("axis-minus-1", "<axis = -1>", True),
        ("axis-2", "<axis = 2>", True),
        ("epsilon-1e-12", "<epsilon = 1e-12>", True),
        ("epsilon-0.5", "<epsilon = 0.5>", True),
        ("epsilon-0", "<epsilon = 0.0>", True),
        ("stash-1", "<stash_type = 1>", True),
        ("stash-0", "<stash_type = 0>", False),
        ("stash-10", "<stash_type = 10>", False),
        ("stash-11", "<stash_type = 11>", False),
    ):
        body = f"{add} y = {LN}{attributes}(a, scale, shift)"
        yield edge(f"ln-{name}", body, AFFINE, inputs=TWO, fused=SKIP if fused else None)
        body = f"{add} y = {RMS}{attributes}(a, scale)"
        yield edge(f"rms-{name}", body, AFFINE, inputs=TWO, fused=SKIP_RMS if fused else None)
        yield edge(
            f"ln-no-bias-{name}",
            f"{add} y = {LN}{attributes}(a, scale)",
            AFFINE,
            inputs=TWO,
            fused=SKIP if fused else None,
        )
    for axis, sizes in {"1": (4, 8), "-2": (4, 8), "0": (2, 4, 8)}.items():
        rows = both(tensor("scale", *sizes), tensor("shift", *sizes))
        static = {"inputs": "float[2,4,8] x, float[2,4,8] r", "outputs": "float[2,4,8] y"}
        yield edge(f"ln-over-axis-{axis}", f"{add} y = {LN}<axis = {axis}>(a, scale, shift)", rows, **static)
        yield edge(
            f"ln-over-axis-{axis}-row-scale", f"{add} y = {LN}<axis = {axis}>(a, scale, shift)", AFFINE, **static
        )
        yield edge(f"rms-over-axis-{axis}", f"{add} y = {RMS}<axis = {axis}>(a, scale)", rows, **static)
    for name, scale, shift in (
        ("scale-1", (1,), (8,)),
        ("shift-1", (8,), (1,)),
        ("scalar", (), ()),
        ("ones-in-front", (1, 1, 8), (1, 1, 8)),
        ("scale-rank-2", (1, 8), (8,)),
        ("shift-rank-2", (8,), (1, 8)),
    ):
        rows = both(tensor("scale", *scale), tensor("shift", *shift))
        yield edge(f"ln-{name}", f"{add} y = {LN}(a, scale, shift)", rows, inputs=TWO)
        yield edge(f"rms-{name}", f"{add} y = {RMS}(a, scale)", rows, inputs=TWO)
    for outputs in ("y, mean", "y, mean, deviation", 'y, "", deviation'):
        names = [name for name in ("mean", "deviation") if name in outputs]
        typed = ", ".join(["float[batch,seq,8] y", *(f"float[batch,seq,1] {name}" for name in names)])
        clean = outputs.replace('""', "unread")
        body = f"{add} {clean} = {LN}(a, scale, shift)"
        yield edge(f"ln-outputs-{'-'.join(names)}-of-{outputs.count(',') + 1}", body, AFFINE, inputs=TWO, outputs=typed)
    yield edge("ln-mean-read", f"{add} n, mean = {LN}(a, scale, shift) y = Add(n, mean)", AFFINE, inputs=TWO)
    yield edge("ln-mean-unread", f"{add} y, mean, deviation = {LN}(a, scale, shift)", AFFINE, inputs=TWO)
    overridable = "float[batch,seq,8] x, float[batch,seq,8] r, float[8] scale, float[8] shift"
    yield edge("ln-scale-overridable", f"{add} y = {LN}(a, scale, shift)", AFFINE, inputs=overridable)
    yield edge("ln-scale-input", f"{add} y = {LN}(a, scale, shift)", inputs=overridable)
    yield edge(
        "ln-scale-of-unknown-size",
        f"{add} y = {LN}(a, scale)",
        inputs="float[batch,seq,8] x, float[batch,seq,8] r, float[n] scale",
        fused=None,
    )
    yield edge("ln-scale-missing", f"{add} y = {LN}(a)", inputs=TWO)
    yield edge(
        "ln-of-unknown-width",
        f"{add} y = {LN}(a, scale, shift)",
        AFFINE,
        inputs="float[batch,seq,d] x, float[batch,seq,d] r",
        outputs="float[batch,seq,d] y",
    )
    for constants, name in (
        (tensor("scale", 8), "ln-ones-scaled-after"),
        (tensor("scale", 1, 1, 8), "ln-ones-scaled-after-rank-3"),
    ):
        body = f"n = {LN}(x, ones) y = Mul(n, scale)"
        yield edge(name, body, both(constants, tensor("ones", 8, values=[1] * 8)), fused=LN)
    for dtype in (ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16):
        kind = dtype.name.lower()
        yield edge(f"ln-{kind}", f"{add} y = {LN}(a, scale, shift)", AFFINE, inputs=TWO, dtype=dtype)
        yield edge(f"rms-{kind}", f"{add} y = {RMS}(a, scale)", AFFINE, inputs=TWO, dtype=dtype)
        yield edge(f"ln-decomposed-{kind}", layer_norm("x", "y"), ROWS, dtype=dtype)
        yield edge(f"rms-decomposed-{kind}", rms("x", "y"), ROWS, dtype=dtype)
    mixed = {"inputs": "float16[batch,seq,8] x, float16[batch,seq,8] r", "outputs": "float[batch,seq,8] y"}
    yield edge("rms-half-with-float-scale", f"{add} y = {RMS}(a, scale)", AFFINE, **mixed)
    for opset in (17, 18, 20, 21, 22, 23, 24, 25, 26):
        yield edge(f"ln-opset-{opset}", f"{add} y = {LN}(a, scale, shift)", AFFINE, inputs=TWO, opset=opset, fused=SKIP)
        if opset > 22:
            yield edge(
                f"rms-opset-{opset}", f"{add} y = {RMS}(a, scale)", AFFINE, inputs=TWO, opset=opset, fused=SKIP_RMS
            )


def _layer_norm_spellings() -> Iterator[Edge]:
    centre = "u = ReduceMean(x, last) c = Sub(x, u)"
    deviation = "q = Pow(c, two) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e)"
    for name, body in {
        "plain": f"{centre} {deviation} n = Div(c, o) s = Mul(n, scale) y = Add(s, shift)",
        "mul-square": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Add(eps, m) o = Sqrt(e) n = Div(c, o) s = Mul(scale, n) y = Add(shift, s)",
        "two-subs": f"{centre} c2 = Sub(x, u) q = Pow(c2, two) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) s = Mul(n, scale) y = Add(s, shift)",
        "two-means": f"{centre} u2 = ReduceMean(x, last) c2 = Sub(x, u2) q = Pow(c2, two) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) s = Mul(n, scale) y = Add(s, shift)",
        "reciprocal": f"{centre} {deviation} i = Reciprocal(o) n = Mul(c, i) s = Mul(n, scale) y = Add(s, shift)",
        "scale-first": f"{centre} {deviation} k = Mul(c, scale) n = Div(k, o) y = Add(n, shift)",
        "scale-on-the-root": f"{centre} {deviation} i = Reciprocal(o) k = Mul(scale, i) n = Mul(c, k) y = Add(n, shift)",
        "pow-half": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Pow(e, half) n = Div(c, o) s = Mul(n, scale) y = Add(s, shift)",
        "no-affine": f"{centre} {deviation} y = Div(c, o)",
        "no-scale": f"{centre} {deviation} n = Div(c, o) y = Add(n, shift)",
        "no-bias": f"{centre} {deviation} n = Div(c, o) y = Mul(n, scale)",
        "no-epsilon": f"{centre} q = Pow(c, two) m = ReduceMean(q, last) o = Sqrt(m) n = Div(c, o) y = Mul(n, scale)",
        "negative-mean": "u = ReduceMean(x, last) v = Neg(u) c = Add(x, v) "
        + f"{deviation} n = Div(c, o) y = Mul(n, scale)",
        "sum-square": f"{centre} k = ReduceSumSquare(c, last) m = Div(k, eight) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "sums": "k = ReduceSum(x, last) u = Div(k, eight) c = Sub(x, u) q = Pow(c, two) l = ReduceSum(q, last) m = Div(l, eight) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "identities": f"{centre} i1 = Identity(c) q = Pow(i1, two) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "tensorflow": f"{centre} {deviation} i = Reciprocal(o) k = Mul(i, scale) a = Mul(x, k) b = Mul(u, k) d = Sub(shift, b) y = Add(a, d)",
    }.items():
        fused = None if name in ("tensorflow", "identities") else LN
        for opset in (18, 20):
            yield edge(
                f"ln-decomposed-{name}-{opset}", body, both(ROWS, tensor("eight", values=[8])), opset=opset, fused=fused
            )
    attribute = layer_norm("x", "y").replace("ReduceMean(", "ReduceMean<axes = [-1]>(").replace(", last)", ")")
    for opset in (9, 11, 13, 14, 17):
        yield edge(
            f"ln-decomposed-axes-attribute-{opset}", attribute, ROWS, opset=opset, fused=LN if opset > 12 else None
        )
    yield edge("ln-decomposed-axis-2", layer_norm("x", "y"), ROWS.replace("{-1}", "{2}"), opset=18, fused=LN)
    yield edge(
        "ln-decomposed-two-axes",
        layer_norm("x", "y"),
        both(
            ERF.replace("int64[1] last = {-1}", "int64[2] last = {-2, -1}"),
            tensor("scale", 4, 8),
            tensor("shift", 4, 8),
        ),
        opset=18,
        **FOUR,
    )
    yield edge(
        "ln-decomposed-axes-swapped",
        layer_norm("x", "y"),
        both(
            ERF.replace("int64[1] last = {-1}", "int64[2] last = {3, 2}"), tensor("scale", 4, 8), tensor("shift", 4, 8)
        ),
        opset=18,
        **FOUR,
    )
    yield edge(
        "ln-decomposed-two-axes-row",
        layer_norm("x", "y"),
        ROWS.replace("int64[1] last = {-1}", "int64[2] last = {-2, -1}"),
        opset=18,
        **FOUR,
    )


def _rms_spellings() -> Iterator[Edge]:
    root = "q = Pow(x, two) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e)"
    for name, body in {
        "plain": f"{root} i = Reciprocal(o) n = Mul(x, i) y = Mul(n, scale)",
        "swapped": f"{root} i = Reciprocal(o) n = Mul(i, x) y = Mul(scale, n)",
        "div": f"{root} n = Div(x, o) y = Mul(n, scale)",
        "one-over": f"{root} i = Div(one, o) n = Mul(x, i) y = Mul(n, scale)",
        "mul": "q = Mul(x, x) m = ReduceMean(q, last) e = Add(eps, m) o = Sqrt(e) n = Div(x, o) y = Mul(scale, n)",
        "power": "q = Mul(x, x) m = ReduceMean(q, last) e = Add(eps, m) i = Pow(e, minus) n = Mul(x, i) y = Mul(scale, n)",
        "unscaled": f"{root} y = Div(x, o)",
        "scale-first": f"{root} k = Mul(x, scale) y = Div(k, o)",
        "offset-scale": f"{root} n = Div(x, o) k = Add(scale, one) y = Mul(n, k)",
        "offset-scale-swapped": f"{root} n = Div(x, o) k = Add(one, scale) y = Mul(k, n)",
        "number-scale": f"{root} n = Div(x, o) y = Mul(n, two)",
        "squeezed": "q = Mul(x, x) m = ReduceMean<keepdims = 0>(q, last) k = Unsqueeze(m, last) e = Add(eps, k) o = Sqrt(e) n = Div(x, o) y = Mul(scale, n)",
        "sum-over": "q = Mul(x, x) l = ReduceSum(q, last) m = Div(l, eight) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "sum-times": "q = Mul(x, x) l = ReduceSum(q, last) m = Mul(l, eighth) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "l2": "l = ReduceL2(x, last) n = Div(x, l) k = Mul(n, rooteight) y = Mul(k, scale)",
        "scaled-twice": f"{root} n = Div(x, o) k = Mul(n, scale) y = Mul(k, shift)",
        "abs-pow": "b = Abs(x) q = Pow(b, two) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "pow-int": f"{root.replace('two', 'twoint')} n = Div(x, o) y = Mul(n, scale)",
    }.items():
        constants = both(
            ROWS,
            tensor("eight", values=[8]),
            tensor("eighth", values=[0.125]),
            tensor("minus", values=[-0.5]),
            tensor("rooteight", values=[2.828427]),
            tensor("twoint", kind="int64", values=[2]),
        )
        fused = None if name in ("l2", "abs-pow", "scaled-twice") else RMS
        for opset in (18, 23):
            yield edge(f"rms-decomposed-{name}-{opset}", body, constants, opset=opset, fused=fused)


def _no_norms() -> Iterator[Edge]:
    """Nearly norms: each has one thing that makes it another function."""
    constants = both(
        ROWS,
        tensor("seven", values=[7]),
        tensor("eight", values=[8]),
        tensor("minus", values=[-1e-5]),
        "int64[1] middle = {1}",
        "int64[0] none = {}",
    )
    centre = "u = ReduceMean(x, last) c = Sub(x, u)"
    for name, body in {
        "unbiased": f"{centre} q = Mul(c, c) k = ReduceSum(q, last) m = Div(k, seven) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "unbiased-by-ratio": f"{centre} q = Mul(c, c) k = ReduceMean(q, last) k8 = Mul(k, eight) m = Div(k8, seven) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "epsilon-after-root": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) o = Sqrt(m) e = Add(o, eps) n = Div(c, e) y = Mul(n, scale)",
        "epsilon-negative": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, minus) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "epsilon-subtracted": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Sub(m, minus) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "epsilon-minus-mean": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Sub(eps, m) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "wrong-axis": layer_norm("x", "y").replace("last", "middle"),
        "mean-over-other-axis": "u = ReduceMean(x, middle) c = Sub(x, u) q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "numerator-not-centred": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "variance-not-centred": f"{centre} q = Mul(x, x) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "mean-of-all": "u = ReduceMean(x) c = Sub(x, u) q = Mul(c, c) m = ReduceMean(q) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "empty-axes": layer_norm("x", "y").replace("last", "none"),
        "noop": layer_norm("x", "y")
        .replace("ReduceMean(", "ReduceMean<noop_with_empty_axes = 1>(")
        .replace("last", "none"),
        "keepdims-0": "u = ReduceMean<keepdims = 0>(x, last) k = Unsqueeze(u, middle) c = Sub(x, k) q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "mean-added": "u = ReduceMean(x, last) c = Add(x, u) q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "mean-minus-x": "u = ReduceMean(x, last) c = Sub(u, x) q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "variance-times-root": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Mul(c, o) y = Mul(n, scale)",
        "no-root": f"{centre} q = Mul(c, c) m = ReduceMean(q, last) e = Add(m, eps) n = Div(c, e) y = Mul(n, scale)",
        "cube": f"{centre} q = Pow(c, seven) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(c, o) y = Mul(n, scale)",
        "sum-without-count": "q = Mul(x, x) m = ReduceSum(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "sum-wrong-count": "q = Mul(x, x) l = ReduceSum(q, last) m = Div(l, seven) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "epsilon-row": "q = Mul(x, x) m = ReduceMean(q, last) e = Add(m, scale) b = Abs(e) o = Sqrt(b) n = Div(x, o) y = Mul(n, scale)",
        "two-epsilons": "q = Mul(x, x) m = ReduceMean(q, last) e0 = Add(m, eps) e = Add(e0, half) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "mean-doubled": "q = Mul(x, x) l = ReduceMean(q, last) m = Mul(l, two) e = Add(m, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
        "root-squared": "q = Mul(x, x) l = ReduceMean(q, last) e = Add(l, eps) o = Sqrt(e) n = Div(x, o) k = Mul(n, x) y = Mul(k, scale)",
        "scaled-square": "h = Mul(x, half) q = Mul(h, x) l = ReduceMean(q, last) e = Add(l, eps) o = Sqrt(e) n = Div(x, o) y = Mul(n, scale)",
    }.items():
        yield edge(f"no-norm-{name}", body, constants, opset=18)
    numerator = "q = Mul(x, x) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) n = Div(r, o) y = Mul(n, scale)"
    yield edge("no-norm-other-numerator", numerator, ROWS, inputs=TWO, opset=18)
    axes = both(ROWS.replace(", int64[1] last = {-1}", ""))
    yield edge("norm-axes-as-input", layer_norm("x", "y"), axes, inputs="float[batch,seq,8] x, int64[1] last", opset=18)
    yield edge(
        "norm-axes-overridable", layer_norm("x", "y"), ROWS, inputs="float[batch,seq,8] x, int64[1] last", opset=18
    )
    yield edge("norm-epsilon-overridable", rms("x", "y"), ROWS, inputs="float[batch,seq,8] x, float eps", opset=18)
    yield edge(
        "norm-epsilon-input",
        rms("x", "y"),
        ROWS.replace("float eps = {1e-05}, ", ""),
        inputs="float[batch,seq,8] x, float eps",
        opset=18,
    )
    scaled = rms("x", "y").replace("ri = Reciprocal(ro)", "ri = Div(number, ro)")
    numbers = both(ROWS, tensor("number", 1, values=[1.5]))
    yield edge("norm-number-overridable", scaled, numbers, inputs="float[batch,seq,8] x, float[1] number", opset=18)
    for sizes in ((1, 1, 1), (1, 1, 1, 1)):
        numbers = both(ROWS, tensor("number", *sizes, values=[1.5]))
        outputs = "float[batch,seq,8] y" if len(sizes) == 3 else "float[o,batch,seq,8] y"
        yield edge(f"norm-number-of-rank-{len(sizes)}", scaled, numbers, outputs=outputs, opset=18)
    yield edge("norm-exponent-overridable", rms("x", "y"), ROWS, inputs="float[batch,seq,8] x, float two", opset=18)
    for constant, kind in (("eps", "1e-05"), ("two", "2")):
        wide = ROWS.replace(f"float {constant} = {{{kind}}}", f"float[1,1,1,1] {constant} = {{{kind}}}")
        yield edge(f"norm-{constant}-widens", rms("x", "y"), wide, outputs="float[o,batch,seq,8] y", opset=18)
        yield edge(
            f"layer-norm-{constant}-widens", layer_norm("x", "y"), wide, outputs="float[o,batch,seq,8] y", opset=18
        )
    yield edge("norm-of-scalar-axis", rms("x", "y"), ROWS.replace("int64[1] last", "int64 last"), opset=18)
    for value in ("2", "0.00001", "1e-3"):
        yield edge(f"norm-epsilon-{value}", rms("x", "y"), ROWS.replace("1e-05", value), opset=18, fused=RMS)
    yield edge("norm-of-width-1", rms("x", "y"), ROWS, inputs="float[batch,seq,1] x", opset=18)
    yield edge("norm-of-unknown-width", rms("x", "y"), ROWS, inputs="float[batch,seq,d] x", opset=18)
    yield edge("norm-of-rank-1", rms("x", "y"), ROWS, inputs="float[8] x", outputs="float[8] y", opset=18, fused=RMS)
    yield edge(
        "norm-of-rank-5",
        rms("x", "y"),
        ROWS,
        inputs="float[a,b,c,d,8] x",
        outputs="float[a,b,c,d,8] y",
        opset=18,
        fused=RMS,
    )


def _affine() -> Iterator[Edge]:
    for name, sizes, wide in (
        ("scalar", (), False),
        ("1", (1,), False),
        ("1-1-d", (1, 1, 8), False),
        ("d-1", (8, 1), True),
        ("1-1-1-d", (1, 1, 1, 8), True),
        ("1-1-1", (1, 1, 1), False),
        ("3-d", (3, 8), True),
        ("1-1-1-1", (1, 1, 1, 1), True),
    ):
        constants = both(ERF, tensor("scale", *sizes), tensor("shift", *sizes))
        many = {"outputs": "float[o,p,q,r] y" if len(sizes) == 4 else "float[o,p,q] y"} if wide else {}
        inputs = {
            "inputs": "float[batch,3,8] x"
            if name == "3-d"
            else "float[batch,8,8] x"
            if name == "d-1"
            else "float[batch,seq,8] x"
        }
        yield edge(f"affine-{name}-rms", rms("x", "y"), constants, opset=18, **many, **inputs)
        yield edge(f"affine-{name}-layer-norm", layer_norm("x", "y"), constants, opset=18, **many, **inputs)
        body = f"n = {LN}(x, ones) s = Mul(n, scale) y = Add(s, shift)"
        yield edge(
            f"affine-{name}-operator",
            body,
            both(constants, tensor("ones", 8, values=[1] * 8)),
            opset=18,
            **many,
            **inputs,
        )
    per_token = "float[batch,seq,8] x, float[batch,1,8] scale, float[batch,1,8] shift"
    yield edge("affine-adaptive", layer_norm("x", "y"), ERF, inputs=per_token, opset=18)
    yield edge("affine-adaptive-rms", rms("x", "y"), ERF, inputs=per_token, opset=18)
    rows = "float[batch,seq,8] x, float[8] scale, float[8] shift"
    yield edge("affine-rows-as-inputs", layer_norm("x", "y"), ERF, inputs=rows, opset=18)
    yield edge("affine-rows-overridable", layer_norm("x", "y"), ROWS, inputs=rows, opset=18)
    yield edge(
        "affine-row-of-unknown-size", rms("x", "y"), ERF, inputs="float[batch,seq,8] x, float[n] scale", opset=18
    )
    yield edge(
        "affine-row-computed-from-x",
        "k = ReduceMax<keepdims = 0>(x, front) " + rms("x", "y").replace("scale", "k"),
        both(ROWS, "int64[2] front = {0, 1}"),
        opset=18,
    )
    constants = both(ROWS, tensor("ones", 8, values=[1] * 8), tensor("scale2", 8))
    two = "float[batch,seq,8] y, float[batch,seq,8] z"
    yield edge("affine-two-scales", f"n = {LN}(x, ones) y = Mul(n, scale) z = Mul(n, scale2)", constants, outputs=two)
    yield edge("affine-scale-and-norm", f"n = {LN}(x, ones) y = Mul(n, scale) z = Neg(n)", constants, outputs=two)
    yield edge(
        "affine-norm-is-output",
        f"n = {LN}(x, ones) y = Mul(n, scale)",
        constants,
        outputs="float[batch,seq,8] y, float[batch,seq,8] n",
    )
    yield edge("affine-norm-squared", f"n = {LN}(x, ones) y = Mul(n, n)", constants)
    yield edge("affine-bias-then-scale", f"n = {LN}(x, ones) a = Add(n, shift) y = Mul(a, scale)", constants)
    yield edge("affine-two-biases", f"n = {LN}(x, ones) a = Add(n, shift) y = Add(a, scale)", constants)
    yield edge("affine-scale-not-ones", f"n = {LN}(x, scale) y = Mul(n, scale2)", constants)
    yield edge(
        "affine-ones-overridable",
        f"n = {LN}(x, ones) y = Mul(n, scale)",
        constants,
        inputs="float[batch,seq,8] x, float[8] ones",
    )
    yield edge(
        "affine-residual-of-a-row",
        f"n = {LN}(x, ones) y = Add(n, r)",
        constants,
        inputs="float[batch,seq,8] x, float[8] r",
    )
    yield edge(
        "affine-residual-of-its-input",
        f"n = {LN}(x, ones) y = Add(n, x)",
        constants,
        inputs="float[8] x",
        outputs="float[8] y",
    )
    yield edge(
        "affine-gate-of-its-input",
        f"n = {LN}(x, ones) y = Mul(n, x)",
        constants,
        inputs="float[8] x",
        outputs="float[8] y",
    )
    yield edge("affine-mean-read", f"n, m = {LN}(x, ones) y = Mul(n, scale) z = Add(y, m)", constants, outputs=two)


def _uses() -> Iterator[Edge]:
    for piece in ("rq", "rm", "re", "ro", "ri", "rn"):
        body = rms("x", "y") + f" z = Abs({piece})"
        yield edge(f"rms-{piece}-is-read", body, ROWS, outputs="float[batch,seq,8] y, float[batch,seq,n] z", opset=18)
    for piece in ("lu", "lc", "lq", "lm", "le", "lo", "ln", "ls"):
        body = layer_norm("x", "y") + f" z = Abs({piece})"
        yield edge(
            f"layer-norm-{piece}-is-read", body, ROWS, outputs="float[batch,seq,8] y, float[batch,seq,n] z", opset=18
        )
        yield edge(
            f"layer-norm-{piece}-is-output",
            layer_norm("x", "y"),
            ROWS,
            outputs=f"float[batch,seq,8] y, float[batch,seq,n] {piece}",
            opset=18,
        )
    yield edge("rms-twice", rms("x", "h", "a") + rms("h", "y", "b"), ROWS, opset=18, fused=RMS)
    shared = "q = Mul(x, x) m = ReduceMean(q, last) e = Add(m, eps) o = Sqrt(e) y = Div(x, o) z = Div(x, o)"
    yield edge("rms-root-shared", shared, ROWS, outputs="float[batch,seq,8] y, float[batch,seq,8] z", opset=18)


def _half() -> Iterator[Edge]:
    for kind, number in (("float16", 10), ("bfloat16", 16)):
        typed = {"inputs": f"{kind}[batch,seq,8] x", "outputs": f"{kind}[batch,seq,8] y"}
        there, back = "f = Cast<to = 1>(x)", f"y = Cast<to = {number}>(n)"
        exact = both(
            ERF, tensor("scale", 8, values=[0.5, 1, 2, -1, 0.25, 1.5, 3, -2]), tensor("shift", 8, values=[1] * 8)
        )
        for name, constants in (("exact", exact), ("precise", ROWS)):
            yield edge(
                f"{kind}-ln-between-casts-{name}", f"{there} n = {LN}(f, scale, shift) {back}", constants, **typed
            )
            yield edge(f"{kind}-rms-between-casts-{name}", f"{there} n = {RMS}(f, scale) {back}", constants, **typed)
            yield edge(
                f"{kind}-rms-decomposed-between-casts-{name}",
                f"{there} {rms('f', 'n')} {back}",
                constants,
                opset=18,
                **typed,
            )
            yield edge(
                f"{kind}-ln-decomposed-between-casts-{name}",
                f"{there} {layer_norm('f', 'n')} {back}",
                constants,
                opset=18,
                **typed,
            )
        llama = f"{there} {rms('f', 'm').replace('scale', 'ones')} n = Cast<to = {number}>(m) y = Mul(n, weight)"
        constants = both(ERF, tensor("ones", 8, values=[1] * 8), tensor("weight", 8))
        dtype = {"weight": ir.DataType(number)}
        yield edge(f"{kind}-llama-norm", llama, constants, opset=18, dtypes=dtype, **typed)
        after = llama.replace(f"n = Cast<to = {number}>(m)", f"k = Mul(m, one) n = Cast<to = {number}>(k)")
        yield edge(f"{kind}-llama-norm-scaled-before", after, constants, opset=18, dtypes=dtype, **typed)
        both_read = {**typed, "outputs": f"{kind}[batch,seq,8] y, float[batch,seq,8] n"}
        yield edge(f"{kind}-ln-float-is-read", f"{there} n = {LN}(f, scale, shift) {back}", exact, **both_read)
        mixed = {"inputs": f"{kind}[batch,seq,8] x, {kind}[batch,seq,8] r", "outputs": f"{kind}[batch,seq,8] y"}
        between = f"f = Cast<to = 1>(x) g = Cast<to = 1>(r) a = Add(f, g) n = {LN}(a, scale, shift) {back}"
        yield edge(f"{kind}-add-in-float-between-casts", between, exact, **mixed)
        rounded = f"f = Cast<to = 1>(x) g = Cast<to = 1>(r) a = Add(f, g) h = Cast<to = {number}>(a) i = Cast<to = 1>(h) n = {LN}(i, scale, shift) {back}"
        yield edge(f"{kind}-add-rounded-between-casts", rounded, exact, **mixed)
        added = f"a = Add(x, r) f = Cast<to = 1>(a) n = {LN}(f, scale, shift) {back}"
        yield edge(f"{kind}-add-then-norm-in-float", added, exact, **mixed)
    other = {"inputs": "float16[batch,seq,8] x", "outputs": "bfloat16[batch,seq,8] y"}
    yield edge(
        "half-to-bfloat16-norm", f"f = Cast<to = 1>(x) n = {LN}(f, scale, shift) y = Cast<to = 16>(n)", AFFINE, **other
    )
    up = {"inputs": "float[batch,seq,8] x", "outputs": "float[batch,seq,8] y"}
    yield edge(
        "norm-in-double-between-casts",
        f"f = Cast<to = 11>(x) n = {LN}(f, scale, shift) y = Cast<to = 1>(n)",
        AFFINE,
        dtypes={"scale": ir.DataType.DOUBLE, "shift": ir.DataType.DOUBLE},
        **up,
    )
    yield edge(
        "norm-in-half-of-float",
        f"f = Cast<to = 10>(x) n = {LN}(f, scale, shift) y = Cast<to = 1>(n)",
        AFFINE,
        dtypes={"scale": ir.DataType.FLOAT16, "shift": ir.DataType.FLOAT16},
        **up,
    )
