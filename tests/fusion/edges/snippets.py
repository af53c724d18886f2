"""Text of the parts that edges are put together from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def tensor(name: str, *sizes: int, kind: str = "float", values: Sequence[float] | None = None) -> str:
    """Write an initializer, drawn from its name where it is not given."""
    count = int(np.prod(sizes)) if sizes else 1
    if values is None:
        draw = np.random.default_rng(sum(map(ord, name)) + count)
        values = draw.standard_normal(count).round(4).tolist()
    shape = f"[{','.join(map(str, sizes))}]" if sizes else ""
    return f"{kind}{shape} {name} = {{{', '.join(map(str, values))}}}"


def both(*parts: str) -> str:
    """Join initializers."""
    return ", ".join(part for part in parts if part)


ERF = both(
    tensor("root", values=[1.4142135]),
    tensor("one", values=[1]),
    tensor("half", values=[0.5]),
    tensor("eps", values=[1e-5]),
    tensor("two", values=[2]),
    "int64[1] last = {-1}",
)
TANH = both(
    tensor("inner", values=[0.044715]),
    tensor("outer", values=[0.7978846]),
    tensor("three", values=[3]),
    tensor("one", values=[1]),
    tensor("half", values=[0.5]),
)
WEIGHTS = both(tensor("w1", 8, 16), tensor("b1", 16), tensor("w2", 16, 8), tensor("b2", 8))
AFFINE = both(tensor("scale", 8), tensor("shift", 8))


def gelu(x: str, y: str, prefix: str = "g") -> str:
    """Write GELU's erf kind as decomposed nodes."""
    p = prefix
    return f"{p}d = Div({x}, root) {p}e = Erf({p}d) {p}a = Add({p}e, one) {p}m = Mul({x}, {p}a) {y} = Mul({p}m, half)"


def tanh_gelu(x: str, y: str, prefix: str = "t") -> str:
    """Write GELU's tanh kind as decomposed nodes."""
    p = prefix
    return (
        f"{p}p = Pow({x}, three) {p}q = Mul({p}p, inner) {p}r = Add({x}, {p}q) {p}s = Mul({p}r, outer)"
        f" {p}t = Tanh({p}s) {p}a = Add({p}t, one) {p}h = Mul({x}, half) {y} = Mul({p}h, {p}a)"
    )


def rms(x: str, y: str, prefix: str = "r") -> str:
    """Write RMSNorm with a scale as decomposed nodes."""
    p = prefix
    return (
        f"{p}q = Pow({x}, two) {p}m = ReduceMean({p}q, last) {p}e = Add({p}m, eps) {p}o = Sqrt({p}e)"
        f" {p}i = Reciprocal({p}o) {p}n = Mul({x}, {p}i) {y} = Mul({p}n, scale)"
    )


def layer_norm(x: str, y: str, prefix: str = "l") -> str:
    """Write LayerNorm with scale and shift as decomposed nodes."""
    p = prefix
    return (
        f"{p}u = ReduceMean({x}, last) {p}c = Sub({x}, {p}u) {p}q = Pow({p}c, two) {p}m = ReduceMean({p}q, last)"
        f" {p}e = Add({p}m, eps) {p}o = Sqrt({p}e) {p}n = Div({p}c, {p}o) {p}s = Mul({p}n, scale)"
        f" {y} = Add({p}s, shift)"
    )
