"""Shape rules of matrix products, norms with statistics, reductions, convolutions and attention."""

from __future__ import annotations

from collections.abc import Mapping

from ffn_export.fusion.shape_proofs.facts import Rule, Shape, View, at
from ffn_export.fusion.shape_proofs.size import ONE, Size
from ffn_export.fusion.views import ints_of, string_of


def _matmul(view: View, first: int = 0, second: int = 1) -> Shape | None:
    a, b = view.shape(first), view.shape(second)
    if not a or not b:
        return None
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    batch = view.broadcast((a[:-2], b[:-2]))
    return None if batch is None else (*batch, *rows, *columns)


def _fused_matmul(view: View) -> Shape | None:
    a, b = view.shape(0), view.shape(1)
    if not a or not b or len(a) < 2 or len(b) < 2:
        return None
    if view.integer("transBatchA", 0) or view.integer("transBatchB", 0):
        return None
    batch = view.broadcast((a[:-2], b[:-2]))
    row = a[-1] if view.integer("transA", 0) else a[-2]
    column = b[-2] if view.integer("transB", 0) else b[-1]
    return None if batch is None else (*batch, row, column)


def _gemm(view: View) -> Shape | None:
    a, b = view.shape(0), view.shape(1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return view.unknown(2)
    return (a[1] if view.integer("transA", 0) else a[0], b[0] if view.integer("transB", 0) else b[1])


def _columns_by_attribute(view: View) -> Shape | None:
    """MatMulNBits: the weight is packed; ``N`` is its number of columns."""
    x = view.shape()
    return None if not x else (*x[:-1], Size.of(view.integer("N", -1)))


def _einsum(view: View) -> Shape | None:
    """Einsum: the size of a letter is that to which all axes of the letter broadcast."""
    equation = (string_of(view.node, "equation", "") or "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != len(view.node.inputs):
        return None
    sizes: dict[str, Size] = {}
    for index, term in enumerate(terms):
        shape = view.shape(index)
        if shape is None or len(shape) != len(term):
            return None
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = view.broadcast_size(sizes[letter], size) if letter in sizes else size
    return tuple(sizes[letter] for letter in right)


def _layer_norm(view: View) -> list[Shape | None]:
    """The result, and the mean and inverse deviation with size 1 in the normalised axes."""
    x = view.known()
    axis = at(view.integer("axis", -1), len(x))
    statistics = (*x[:axis], *(ONE,) * (len(x) - axis))
    return [x, statistics, statistics]


def _skip_norm(view: View) -> list[Shape | None]:
    """The result, two statistics that no kernel computes, and the sum."""
    return [view.shape(), None, None, view.shape()]


def _reduced(view: View) -> Shape | None:
    x, axes = view.known(), view.integers(1, "axes")
    keeps = bool(view.integer("keepdims", 1))
    if axes is None:
        return view.unknown(len(x)) if keeps else None
    if not axes and view.integer("noop_with_empty_axes", 0):
        return x
    dropped = {at(axis, len(x)) for axis in axes} if axes else set(range(len(x)))
    return _without(x, dropped, keeps=keeps)


def _without(x: Shape, dropped: set[int], *, keeps: bool) -> Shape:
    return tuple(ONE if axis in dropped else size for axis, size in enumerate(x) if keeps or axis not in dropped)


def _arg_reduced(view: View) -> Shape | None:
    x = view.known()
    return _without(x, {at(view.integer("axis", 0), len(x))}, keeps=bool(view.integer("keepdims", 1)))


def _convolved(view: View) -> Shape | None:
    """A convolution with a known kernel: an axis is ``floor((x + pads - dilation * (k - 1) - 1) / stride) + 1``.

    The runtime fails if that is below 1.
    """
    x, weight = view.shape(), view.shape(1)
    if x is None or weight is None or len(x) != len(weight) or len(x) < 3:
        return None
    rank = len(x) - 2
    strides = ints_of(view.node, "strides") or (1,) * rank
    dilations = ints_of(view.node, "dilations") or (1,) * rank
    pads = ints_of(view.node, "pads") or (0,) * (2 * rank)
    named = string_of(view.node, "auto_pad", "NOTSET")
    spatial = []
    for axis in range(rank):
        size, kernel = x[2 + axis], weight[2 + axis].constant
        if named not in ("NOTSET", "VALID") or kernel is None or not kernel:
            spatial.append(view.facts.unknown())
            continue
        padded = 0 if named == "VALID" else pads[axis] + pads[axis + rank]
        last = size + Size.of(padded - dilations[axis] * (kernel - 1) - 1)
        spatial.append(view.facts.floor(last, strides[axis]) + ONE)
        view.facts.note_bound(spatial[-1], 1)
    return (x[0], weight[0], *spatial)


def _fourier(view: View) -> Shape | None:
    """DFT: real and imaginary parts are on the last axis; ``onesided`` keeps half of the frequencies and one."""
    x = view.shape()
    axes = view.integers(2) if view.has(2) else (view.integer("axis", 1 if view.opset < 20 else -2),)
    if x is None or (view.integer("onesided", 0) and view.integer("inverse", 0)):
        return None
    if axes is None or len(axes) != 1:
        return view.unknown(len(x))
    axis = at(axes[0], len(x))
    length = x[axis] if not view.has(1) else (view.contents(1) or (None,))[0]
    if length is None or not length.is_at_least(0):
        length = view.facts.unknown()
    elif view.integer("onesided", 0):
        length = view.facts.floor(length, 2) + ONE
    return (*x[:axis], length, *x[axis + 1 : -1], Size.of(2))


def _attention(view: View) -> Shape | None:
    """The first output of the standard's Attention: ``[batch, heads, seq, size]`` or ``[batch, seq, heads * size]``."""
    query, value = view.known(0), view.known(2)
    if len(query) != len(value) or len(query) not in (3, 4):
        return None
    if len(query) == 4:
        return (*query[:3], value[3])
    size = value[2].over(Size.of(view.integer("kv_num_heads", 0)))
    return None if size is None else (*query[:2], size * Size.of(view.integer("q_num_heads", 0)))


def _ort_attention(view: View) -> Shape | None:
    """The first output of ``com.microsoft`` MultiHeadAttention, as wide as the value."""
    query, value = view.known(0), view.known(2)
    return (*query[:2], value[2]) if len(query) == len(value) == 3 else None


def _like_query(view: View) -> Shape | None:
    """The first output of GroupQueryAttention with separate inputs."""
    return view.shape() if view.has(1) and view.has(2) else None


_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"

PRODUCTS: Mapping[tuple[str, str], Rule] = {
    ("", "MatMul"): _matmul,
    ("", "MatMulInteger"): _matmul,
    ("", "QLinearMatMul"): lambda view: _matmul(view, 0, 3),
    ("", "Gemm"): _gemm,
    ("", "Einsum"): _einsum,
    ("", "LayerNormalization"): _layer_norm,
    ("", "SimplifiedLayerNormalization"): _layer_norm,  # ONNX Runtime's, by mistake in the standard domain
    **{("", f"Reduce{name}"): _reduced for name in _REDUCTIONS.split()},
    ("", "ArgMax"): _arg_reduced,
    ("", "ArgMin"): _arg_reduced,
    ("", "Conv"): _convolved,
    ("", "DFT"): _fourier,
    ("", "Attention"): _attention,
    ("com.microsoft", "FusedMatMul"): _fused_matmul,
    ("com.microsoft", "FusedGemm"): _gemm,
    ("com.microsoft", "MatMulNBits"): _columns_by_attribute,
    ("com.microsoft", "DynamicQuantizeMatMul"): _matmul,
    ("com.microsoft", "MatMulIntegerToFloat"): _matmul,
    ("com.microsoft", "SkipLayerNormalization"): _skip_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_norm,
    ("com.microsoft", "MultiHeadAttention"): _ort_attention,
    ("com.microsoft", "GroupQueryAttention"): _like_query,
}
