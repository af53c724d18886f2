"""Edges of residual + norm pairs: addends of every shape, uses of the sum, what stands in between."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import AFFINE, ERF, WEIGHTS, both, rms, tensor

TWO = "float[batch,seq,8] x, float[batch,seq,8] r"
THREE = TWO + ", float[batch,seq,8] s"
PAIR = "float[batch,seq,8] y, float[batch,seq,8] z"
NORM = "LayerNormalization(a, scale, shift)"
SKIP = "SkipLayerNormalization"


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _addends()
    yield from _uses()
    yield from _between()
    yield from _biases()


def _addends() -> Iterator[Edge]:
    yield edge("pair", f"a = Add(x, r) y = {NORM}", AFFINE, inputs=TWO, fused=SKIP)
    yield edge("pair-twice-one-value", f"a = Add(x, x) y = {NORM}", AFFINE)
    yield edge("pair-of-computed", f"n = Neg(x) a = Add(n, r) y = {NORM}", AFFINE, inputs=TWO, fused=SKIP)
    for name, shape in {
        "1-s-d": "[1,seq,8]",
        "d": "[8]",
        "b-1-d": "[batch,1,8]",
        "scalar": "",
        "1": "[1]",
        "s-d": "[seq,8]",
        "1-d": "[1,8]",
        "1-1-d": "[1,1,8]",
        "b-s-1": "[batch,seq,1]",
        "other-symbol": "[batch,other,8]",
        "unnamed": "[?,?,8]",
        "rank-4": "[1,batch,seq,8]",
        "static": "[2,3,8]",
        "b-s-d-unknown": "[batch,seq,d]",
    }.items():
        outputs = "float[o,batch,seq,8] y" if name == "rank-4" else "float[batch,seq,8] y"
        inputs = f"float[batch,seq,8] x, float{shape} r"
        yield edge(f"addend-{name}", f"a = Add(x, r) y = {NORM}", AFFINE, inputs=inputs, outputs=outputs)
        yield edge(f"addend-{name}-first", f"a = Add(r, x) y = {NORM}", AFFINE, inputs=inputs, outputs=outputs)
        rms_body = "a = Add(x, r) y = RMSNormalization(a, scale)"
        yield edge(f"addend-{name}-rms", rms_body, AFFINE, inputs=inputs, outputs=outputs)
        biased = f"b = Add(r, shift) a = Add(x, b) y = {NORM}"
        yield edge(f"addend-{name}-biased", biased, AFFINE, inputs=inputs, outputs=outputs)
    for name, sizes in {
        "1-3-8": (1, 3, 8),
        "d": (8,),
        "1-1-d": (1, 1, 8),
        "3-8": (3, 8),
        "1": (1,),
        "": (),
        "1-1-1-d": (1, 1, 1, 8),
    }.items():
        outputs = "float[o,batch,3,8] y" if len(sizes) == 4 else "float[batch,3,8] y"
        options = {"inputs": "float[batch,3,8] x, float[batch,3,8] r", "outputs": outputs}
        constants = both(AFFINE, tensor("p", *sizes))
        yield edge(f"constant-addend-{name}", f"a = Add(x, p) y = {NORM}", constants, **options)
        yield edge(
            f"constant-addend-{name}-and-residual", f"b = Add(x, p) a = Add(b, r) y = {NORM}", constants, **options
        )
        yield edge(
            f"constant-addend-{name}-after-residual", f"b = Add(x, r) a = Add(b, p) y = {NORM}", constants, **options
        )
    yield edge(
        "pair-all-unnamed",
        f"a = Add(x, r) y = {NORM}",
        AFFINE,
        inputs="float[?,?,8] x, float[?,?,8] r",
        outputs="float[?,?,8] y",
    )
    yield edge("pair-unknown-rank", f"a = Add(x, r) y = {NORM}", AFFINE, inputs="float x, float r", outputs="float y")
    for rank, shape in {"1": "8", "2": "batch,8", "4": "a,b,c,8", "5": "a,b,c,d,8"}.items():
        for kind, norm in (("ln", NORM), ("rms", "RMSNormalization(a, scale)")):
            typed = f"float[{shape}] x, float[{shape}] r"
            fused = (
                None
                if rank == "1"
                else "SkipLayerNormalization"
                if kind == "ln"
                else "SkipSimplifiedLayerNormalization"
            )
            yield edge(
                f"pair-{kind}-rank-{rank}",
                f"a = Add(x, r) y = {norm}",
                AFFINE,
                inputs=typed,
                outputs=f"float[{shape}] y",
                fused=fused,
            )
            yield edge(
                f"pair-{kind}-rank-{rank}-with-sum",
                f"a = Add(x, r) y = {norm} z = Neg(a)",
                AFFINE,
                inputs=typed,
                outputs=f"float[{shape}] y, float[{shape}] z",
                fused=fused,
            )
    yield edge(
        "pair-static",
        f"a = Add(x, r) y = {NORM}",
        AFFINE,
        inputs="float[2,3,8] x, float[2,3,8] r",
        outputs="float[2,3,8] y",
        fused=SKIP,
    )
    yield edge(
        "pair-static-1",
        f"a = Add(x, r) y = {NORM}",
        AFFINE,
        inputs="float[1,3,8] x, float[2,3,8] r",
        outputs="float[2,3,8] y",
    )
    yield edge(
        "pair-zero-size",
        f"a = Add(x, r) y = {NORM}",
        AFFINE,
        inputs="float[0,3,8] x, float[0,3,8] r",
        outputs="float[0,3,8] y",
    )
    yield edge("pair-sub", f"a = Sub(x, r) y = {NORM}", AFFINE, inputs=TWO)
    yield edge("pair-sum", f"a = Sum(x, r) y = {NORM}", AFFINE, inputs=TWO)
    yield edge("pair-sum-three", f"a = Sum(x, r, s) y = {NORM}", AFFINE, inputs=THREE)
    yield edge("pair-mul", f"a = Mul(x, r) y = {NORM}", AFFINE, inputs=TWO)
    yield edge(
        "ints", "a = Add(x, r) y = Neg(a)", inputs="int64[batch,8] x, int64[batch,8] r", outputs="int64[batch,8] y"
    )
    for tree in ("b = Add(x, r) a = Add(b, s)", "b = Add(r, s) a = Add(x, b)", "b = Add(r, s) a = Add(b, x)"):
        yield edge(f"sum-of-three-{tree.replace(' ', '')}", f"{tree} y = {NORM}", AFFINE, inputs=THREE, fused=SKIP)
        yield edge(
            f"sum-of-three-read-{tree.replace(' ', '')}",
            f"{tree} y = {NORM} z = Mul(a, b)",
            AFFINE,
            inputs=THREE,
            outputs=PAIR,
            fused=SKIP,
        )
    yield edge("sum-of-four", f"b = Add(x, r) c = Add(s, x) a = Add(b, c) y = {NORM}", AFFINE, inputs=THREE, fused=SKIP)
    yield edge("sum-with-itself", f"b = Add(x, r) a = Add(b, b) y = {NORM}", AFFINE, inputs=TWO)
    yield edge("sum-with-itself-biased", f"b = Add(x, shift) a = Add(b, b) y = {NORM}", AFFINE)
    yield edge(
        "attention-like",
        f"n = MatMul(x, w) a = Add(n, x) y = {NORM} m = MatMul(y, w) c = Add(m, y) z = LayerNormalization(c, scale, shift)",
        both(AFFINE, tensor("w", 8, 8)),
        outputs=PAIR,
        fused=SKIP,
    )


def _uses() -> Iterator[Edge]:
    yield edge("sum-is-read", f"a = Add(x, r) y = {NORM} z = Neg(a)", AFFINE, inputs=TWO, outputs=PAIR, fused=SKIP)
    yield edge(
        "sum-is-read-before", f"a = Add(x, r) z = Neg(a) y = {NORM}", AFFINE, inputs=TWO, outputs=PAIR, fused=SKIP
    )
    yield edge(
        "sum-is-output", f"z = Add(x, r) y = {NORM.replace('a,', 'z,')}", AFFINE, inputs=TWO, outputs=PAIR, fused=SKIP
    )
    yield edge(
        "sum-thrice",
        f"a = Add(x, r) y = {NORM} b = Neg(a) c = Abs(a) d = Mul(b, c) z = Add(d, a)",
        AFFINE,
        inputs=TWO,
        outputs=PAIR,
        fused=SKIP,
    )
    yield edge(
        "sum-of-two-norms", f"a = Add(x, r) y = {NORM} z = RMSNormalization(a, scale)", AFFINE, inputs=TWO, outputs=PAIR
    )
    yield edge(
        "pre-norm",
        f"a = Add(x, r) n = {NORM} m = MatMul(n, w) z = Add(m, a) y = LayerNormalization(z, scale, shift)",
        both(AFFINE, tensor("w", 8, 8)),
        inputs=TWO,
        outputs=PAIR,
        fused=SKIP,
    )
    yield edge(
        "norm-is-addend",
        f"a = Add(x, r) n = {NORM} b = Add(n, a) y = LayerNormalization(b, scale, shift)",
        AFFINE,
        inputs=TWO,
    )
    yield edge(
        "norm-read-and-output", f"a = Add(x, r) y = {NORM} z = Neg(y)", AFFINE, inputs=TWO, outputs=PAIR, fused=SKIP
    )
    branch = "{0} = If(c) <then_branch = t () => (float[b,s,8] k) {{ k = {1} }}, else_branch = e () => (float[b,s,8] l) {{ l = Neg(x) }}>"
    flag = TWO + ", bool c"
    yield edge(
        "sum-in-if",
        f"a = Add(x, r) y = {NORM} " + branch.format("z", "Abs(a)"),
        AFFINE,
        inputs=flag,
        outputs=PAIR,
        fused=SKIP,
    )
    yield edge(
        "sum-in-if-before",
        "a = Add(x, r) " + branch.format("z", "Abs(a)") + f" y = {NORM}",
        AFFINE,
        inputs=flag,
        outputs=PAIR,
    )
    yield edge("norm-in-if-of-outer-sum", "a = Add(x, r) " + branch.format("y", NORM), AFFINE, inputs=flag)
    yield edge(
        "pair-in-if-of-outer",
        branch.format("y", "LayerNormalization(a, scale, shift)").replace("{ k", "{ a = Add(x, r) k"),
        AFFINE,
        inputs=flag,
        fused=SKIP,
    )
    bias = f"b = Add(x, shift) a = Add(b, r) y = {NORM}"
    yield edge("bias-in-if", bias + " " + branch.format("z", "Abs(b)"), AFFINE, inputs=flag, outputs=PAIR)


def _between() -> Iterator[Edge]:
    to_rows = both(
        AFFINE,
        "int64[2] rows = {-1, 8}, int64[3] other = {0, -1, 4}, int64[3] back = {0, 0, 8}, int64[1] front = {0}",
        tensor("scale4", 4),
    )
    flat = "float[n,8] y"
    yield edge(
        "reshape-between",
        "a = Add(x, r) f = Reshape(a, rows) y = LayerNormalization(f, scale, shift)",
        to_rows,
        inputs=TWO,
        outputs=flat,
        fused=SKIP,
    )
    yield edge(
        "reshape-between-with-sum",
        "a = Add(x, r) f = Reshape(a, rows) y = LayerNormalization(f, scale, shift) z = Neg(a)",
        to_rows,
        inputs=TWO,
        outputs=flat + ", float[batch,seq,8] z",
        fused=SKIP,
    )
    yield edge(
        "reshape-between-is-read",
        "a = Add(x, r) f = Reshape(a, rows) y = LayerNormalization(f, scale, shift) z = Neg(f)",
        to_rows,
        inputs=TWO,
        outputs=flat + ", float[n,8] z",
    )
    yield edge(
        "reshape-between-is-output",
        "a = Add(x, r) f = Reshape(a, rows) y = LayerNormalization(f, scale, shift)",
        to_rows,
        inputs=TWO,
        outputs=flat + ", float[n,8] f",
    )
    yield edge(
        "reshape-that-splits",
        "a = Add(x, r) f = Reshape(a, other) y = LayerNormalization(f, scale4)",
        to_rows,
        inputs=TWO,
        outputs="float[batch,n,4] y",
    )
    yield edge(
        "reshape-by-own-shape",
        "a = Add(x, r) f = Shape(a) g = Reshape(a, f) y = LayerNormalization(g, scale, shift)",
        to_rows,
        inputs=TWO,
    )
    yield edge(
        "reshape-by-an-input",
        "a = Add(x, r) g = Reshape(a, n) y = LayerNormalization(g, scale, shift)",
        to_rows,
        inputs=TWO.replace("batch,seq", "2,3") + ", int64[3] n",
        outputs="float[p,q,8] y",
    )
    yield edge(
        "transpose-between",
        "a = Add(x, r) f = Transpose<perm = [1, 0, 2]>(a) y = LayerNormalization(f, scale, shift)",
        AFFINE,
        inputs=TWO,
        outputs="float[seq,batch,8] y",
    )
    yield edge(
        "transpose-last-between",
        "a = Add(x, r) f = Transpose<perm = [0, 2, 1]>(a) y = LayerNormalization(f, scale, shift)",
        AFFINE,
        inputs="float[batch,8,8] x, float[batch,8,8] r",
        outputs="float[batch,8,8] y",
    )
    yield edge(
        "identities-between",
        "a = Add(x, r) i = Identity(a) j = Identity(i) y = LayerNormalization(j, scale, shift)",
        AFFINE,
        inputs=TWO,
        fused=SKIP,
    )
    yield edge(
        "identity-read-between",
        "a = Add(x, r) i = Identity(a) y = LayerNormalization(i, scale, shift) z = Neg(i)",
        AFFINE,
        inputs=TWO,
        outputs=PAIR,
    )
    yield edge(
        "identity-output-between",
        "a = Add(x, r) z = Identity(a) y = LayerNormalization(z, scale, shift)",
        AFFINE,
        inputs=TWO,
        outputs=PAIR,
    )
    yield edge(
        "six-identities-between",
        "a = Add(x, r) i = Identity(a) j = Identity(i) k = Identity(j) l = Identity(k) m = Identity(l) o = Identity(m) y = LayerNormalization(o, scale, shift)",
        AFFINE,
        inputs=TWO,
    )
    yield edge(
        "cast-to-float-between",
        "a = Add(x, r) i = Cast<to = 1>(a) y = LayerNormalization(i, scale, shift)",
        AFFINE,
        inputs=TWO,
        fused=SKIP,
    )
    yield edge(
        "cast-to-half-between",
        "a = Add(x, r) i = Cast<to = 10>(a) y = LayerNormalization(i, scale, shift)",
        AFFINE,
        inputs=TWO,
        outputs="float16[batch,seq,8] y",
        dtypes={"scale": ir.DataType.FLOAT16, "shift": ir.DataType.FLOAT16},
    )
    yield edge(
        "cast-from-half-between",
        "a = Add(x, r) i = Cast<to = 1>(a) y = LayerNormalization(i, scale, shift)",
        AFFINE,
        inputs=TWO.replace("float", "float16"),
    )
    yield edge(
        "cast-through-half-between",
        "a = Add(x, r) h = Cast<to = 10>(a) i = Cast<to = 1>(h) y = LayerNormalization(i, scale, shift)",
        AFFINE,
        inputs=TWO,
    )
    yield edge(
        "cast-through-double-between",
        "a = Add(x, r) h = Cast<to = 11>(a) i = Cast<to = 1>(h) y = LayerNormalization(i, scale, shift)",
        AFFINE,
        inputs=TWO,
    )
    yield edge("dropout-between", f"b = Dropout(r) a = Add(x, b) y = {NORM}", AFFINE, inputs=TWO)
    yield edge(
        "dropout-after-sum", "b = Add(x, r) a = Dropout(b) y = LayerNormalization(a, scale, shift)", AFFINE, inputs=TWO
    )
    yield edge(
        "dropout-not-training",
        "b = Add(x, r) a = Dropout(b, half, off) y = LayerNormalization(a, scale, shift)",
        both(AFFINE, ERF, "bool off = {0}"),
        inputs=TWO,
    )
    yield edge(
        "dropout-mask-read",
        "b = Add(x, r) a, m = Dropout(b) y = LayerNormalization(a, scale, shift) z = Cast<to = 1>(m)",
        AFFINE,
        inputs=TWO,
        outputs=PAIR,
    )
    yield edge("relu-between", "b = Add(x, r) a = Relu(b) y = LayerNormalization(a, scale, shift)", AFFINE, inputs=TWO)
    yield edge(
        "unsqueeze-between",
        "a = Add(x, r) f = Unsqueeze(a, front) y = LayerNormalization(f, scale, shift)",
        to_rows,
        inputs=TWO,
        outputs="float[o,batch,seq,8] y",
    )
    yield edge(
        "squeeze-between",
        "a = Add(x, r) f = Squeeze(a, front) y = LayerNormalization(f, scale, shift)",
        to_rows,
        inputs="float[1,seq,8] x, float[1,seq,8] r",
        outputs="float[seq,8] y",
    )
    yield edge(
        "flatten-between",
        "a = Add(x, r) f = Flatten<axis = 2>(a) y = LayerNormalization(f, scale, shift)",
        to_rows,
        inputs=TWO,
        outputs=flat,
    )
    yield edge(
        "flatten-that-joins",
        "a = Add(x, r) f = Flatten<axis = 1>(a) y = LayerNormalization(f, scale24)",
        both(AFFINE, tensor("scale24", 24)),
        inputs="float[batch,3,8] x, float[batch,3,8] r",
        outputs="float[batch,24] y",
    )
    yield edge(
        "decomposed-after-sum",
        "a = Add(x, r) " + rms("a", "y") + " z = Neg(a)",
        both(ERF, AFFINE),
        inputs=TWO,
        outputs=PAIR,
        opset=18,
        fused="SkipSimplifiedLayerNormalization",
    )
    yield edge(
        "decomposed-after-broadcast-sum",
        "a = Add(x, r) " + rms("a", "y"),
        both(ERF, AFFINE),
        inputs="float[batch,seq,8] x, float[1,seq,8] r",
        opset=18,
    )


def _biases() -> Iterator[Edge]:
    linear = "m = MatMul(x, w)"
    constants = both(AFFINE, WEIGHTS, tensor("w", 8, 8), tensor("b", 8))
    yield edge("bias-and-residual", f"{linear} b1x = Add(m, b) a = Add(b1x, x) y = {NORM}", constants, fused=SKIP)
    yield edge("bias-and-residual-swapped", f"{linear} k = Add(b, m) a = Add(x, k) y = {NORM}", constants, fused=SKIP)
    yield edge("bias-after-residual", f"{linear} k = Add(m, x) a = Add(k, b) y = {NORM}", constants)
    yield edge(
        "two-biases-in-a-row", f"{linear} k = Add(m, b) l = Add(k, b2) a = Add(l, x) y = {NORM}", constants, fused=SKIP
    )
    yield edge(
        "bias-on-both-addends", f"{linear} k = Add(m, b) l = Add(x, b2) a = Add(k, l) y = {NORM}", constants, fused=SKIP
    )
    yield edge(
        "bias-is-read",
        f"{linear} k = Add(m, b) a = Add(k, x) y = {NORM} z = Neg(k)",
        constants,
        outputs=PAIR,
        fused=SKIP,
    )
    yield edge(
        "bias-of-one-number",
        f"{linear} k = Add(m, c) a = Add(k, x) y = {NORM}",
        both(constants, tensor("c", 1)),
        fused=SKIP,
    )
    yield edge(
        "bias-computed",
        f"{linear} k = Add(m, c) a = Add(k, x) y = {NORM}",
        constants,
        inputs="float[batch,seq,8] x, float[8] c",
        fused=SKIP,
    )
    yield edge(
        "bias-overridable",
        f"{linear} k = Add(m, b) a = Add(k, x) y = {NORM}",
        constants,
        inputs="float[batch,seq,8] x, float[8] b",
        fused=SKIP,
    )
    yield edge(
        "bias-and-residual-ambiguous",
        f"k = Add(x, c) a = Add(k, d) y = {NORM}",
        AFFINE,
        inputs="float[batch,seq,8] x, float[8] c, float[8] d",
    )
    yield edge("only-rows", f"a = Add(c, d) y = {NORM}", AFFINE, inputs="float[8] c, float[8] d", outputs="float[8] y")
    yield edge(
        "row-and-bias", f"k = Add(c, b) a = Add(k, c) y = {NORM}", constants, inputs="float[8] c", outputs="float[8] y"
    )
    yield edge(
        "widening-bias",
        f"k = Add(r, b24) a = Add(k, x) y = {NORM}",
        both(AFFINE, tensor("b24", 3, 8)),
        inputs="float[batch,3,8] x, float[batch,1,8] r",
    )
    yield edge(
        "bias-widens-last",
        f"k = Add(r, b) a = Add(k, x) y = {NORM}",
        constants,
        inputs="float[batch,seq,8] x, float[batch,seq,1] r",
    )
