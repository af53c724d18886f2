"""Write the operators of ``com.microsoft`` that rules use as standard operators.

Both portable functions and outlined feed-forwards use these bodies. Formulas and defaults are those of ONNX Runtime's
``docs/ContribOperators.md``. Half precision is computed in float32 and rounded once, as in its kernels. Optional inputs
that are left out are None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.fusion.activations import FUSED_GEMM
from ffn_export.fusion.builder import Builder, Values
from ffn_export.fusion.forms import ATTENTION
from ffn_export.fusion.provenance import rules_of
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import rank

DOMAIN = "com.microsoft"
# Lowest opset whose Constant takes a number from an attribute, and whose operators allow bfloat16.
LOWEST_OPSET = 13
_CAST_LIKE, _AXES_AS_INPUT, _GELU = 15, 18, 20
_PLAIN = (ir.DataType.FLOAT, ir.DataType.DOUBLE)

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """Opset and dtype of a body.

    Attributes:
        opset: Opset that the body imports.
        dtype: Dtype of its operands; None if it serves several.
    """

    opset: int
    dtype: ir.DataType | None

    @property
    def computes_in(self) -> ir.DataType:
        """The dtype of the computation."""
        return self.dtype if self.dtype in _PLAIN and self.dtype is not None else ir.DataType.FLOAT

    @property
    def is_possible(self) -> bool:
        """Whether the opset has what the body needs."""
        return self.opset >= (LOWEST_OPSET if self.dtype is not None else _CAST_LIKE)


class _Writer:
    """Writes one body; operands are widened on the way in and rounded on the way out."""

    def __init__(self, op: Builder, setting: Setting, attributes: Attributes) -> None:
        self.op = op
        self.setting = setting
        self.attributes = attributes

    @property
    def has_gelu(self) -> bool:
        """Whether ``Gelu`` may be used; ONNX defines it by a function body that depends on the dtype."""
        return self.setting.opset >= _GELU and self.setting.dtype is not None

    def wide(self, value: ir.Value | None) -> ir.Value:
        assert value is not None
        plain = self.setting.dtype in _PLAIN
        return value if plain else self.op.Cast(value, to=ir.DataType.FLOAT.value)

    def like(self, value: ir.Value, operand: ir.Value | None) -> ir.Value:
        dtype = self.setting.dtype
        if dtype in _PLAIN:
            return value
        return self.op.CastLike(value, operand) if dtype is None else self.op.Cast(value, to=dtype.value)

    def number(self, number: float) -> ir.Value:
        return self.op.constant(np.asarray(number, self.setting.computes_in.numpy()))

    def attribute(self, name: str) -> ir.Value:
        """Return an attribute as a number: its value, or the attribute of the call; a whole one as int64."""
        given = self.attributes[name]
        if not isinstance(given, ir.Attr):
            return self.op.constant(np.asarray(given, np.int64)) if isinstance(given, int) else self.number(given)
        if given.type == ir.AttributeType.INT:
            whole = ir.RefAttr("value_int", given.ref_attr_name or name, ir.AttributeType.INT)
            count = self.op.Constant(value_int=whole)
            count.dtype = ir.DataType.INT64
            return count
        reference = ir.RefAttr("value_float", given.ref_attr_name or name, ir.AttributeType.FLOAT)
        value = self.op.Constant(value_float=reference)
        if self.setting.computes_in != ir.DataType.FLOAT:
            value = self.op.Cast(value, to=self.setting.computes_in.value)
        return value

    def sum(self, values: Values) -> ir.Value:
        """Add up the values that are not None, from left to right."""
        total, *others = (self.wide(value) for value in values if value is not None)
        for other in others:
            total = self.op.Add(total, other)
        return total

    def mean(self, value: ir.Value) -> ir.Value:
        if self.setting.opset < _AXES_AS_INPUT:
            return self.op.ReduceMean(value, axes=[-1], keepdims=1)
        return self.op.ReduceMean(value, self.op.integers(-1), keepdims=1)

    def gelu(self, x: ir.Value) -> ir.Value:
        """``x Phi(x)``: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2."""
        if self.has_gelu:
            return self.op.Gelu(x)
        # In the order of ONNX Runtime's kernel: bit-equal in float32.
        erf = self.op.Erf(self.op.Mul(x, self.number(sqrt(0.5))))
        return self._half(x, erf)

    def tanh_gelu(self, x: ir.Value) -> ir.Value:
        """The tanh approximation, same paper and section."""
        if self.has_gelu:
            return self.op.Gelu(x, approximate="tanh")
        cube = self.op.Mul(x, self.op.Mul(x, self.op.Mul(x, self.number(0.044715))))
        return self._half(x, self.op.Tanh(self.op.Mul(self.op.Add(x, cube), self.number(sqrt(2 / pi)))))

    def _half(self, x: ir.Value, factor: ir.Value) -> ir.Value:
        return self.op.Mul(self.op.Mul(x, self.number(0.5)), self.op.Add(factor, self.number(1.0)))


def _gelu(w: _Writer, inputs: Values) -> list[ir.Value]:
    return [w.like(w.gelu(w.sum(inputs)), inputs[0])]


def _fast_gelu(w: _Writer, inputs: Values) -> list[ir.Value]:
    return [w.like(w.tanh_gelu(w.sum(inputs)), inputs[0])]


def _quick_gelu(w: _Writer, inputs: Values) -> list[ir.Value]:
    x = w.wide(inputs[0])
    slope = w.attributes["alpha"]
    scaled = x if not isinstance(slope, ir.Attr) and slope == 1 else w.op.Mul(x, w.attribute("alpha"))
    return [w.like(w.op.Mul(x, w.op.Sigmoid(scaled)), inputs[0])]


def _fused_gemm(w: _Writer, inputs: Values) -> list[ir.Value]:
    given = [value if value is None else w.wide(value) for value in inputs]
    activation = w.attributes["activation"]
    names = ("alpha", "beta", "transA", "transB")
    y = w.op.Gemm(*given, **{name: _renamed(w.attributes[name], name) for name in names})
    has_alpha = FUSED_GEMM[activation] is not None
    attributes = {"alpha": _renamed(w.attributes["activation_alpha"], "alpha")} if has_alpha else {}
    return [w.like(w.op.write(activation, y, **attributes), inputs[0])]


def _renamed(attribute: Any, name: str) -> Any:
    """Return a reference to a function's attribute as the attribute ``name`` of a node. Keep a plain value."""
    if not isinstance(attribute, ir.Attr):
        return attribute
    return ir.RefAttr(name, attribute.ref_attr_name or name, attribute.type)


def _skip_layer_norm(w: _Writer, inputs: Values) -> list[ir.Value]:
    """Ba et al. 2016, "Layer Normalization", equation 4, of the sum."""
    x, skip, gamma, beta, bias = (*inputs, None, None)[:5]
    total = w.sum([x, skip, bias])
    mean = w.mean(total)
    return _normalised(w, x, total, mean, w.op.Sub(total, mean), gamma, beta)


def _skip_rms_norm(w: _Writer, inputs: Values) -> list[ir.Value]:
    """Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4, of the sum."""
    x, skip, gamma, bias = (*inputs, None)[:4]
    total = w.sum([x, skip, bias])
    # No kernel computes a mean; the output exists because the operator has it.
    mean = w.op.Mul(w.mean(total), w.number(0.0))
    return _normalised(w, x, total, mean, total, gamma, None)


def _normalised(
    w: _Writer,
    x: ir.Value | None,
    total: ir.Value,
    mean: ir.Value,
    centred: ir.Value,
    gamma: ir.Value | None,
    beta: ir.Value | None,
) -> list[ir.Value]:
    variance = w.mean(w.op.Mul(centred, centred))
    inverse = w.op.Reciprocal(w.op.Sqrt(w.op.Add(variance, w.attribute("epsilon"))))
    y = w.op.Mul(w.op.Mul(centred, inverse), w.wide(gamma))
    if beta is not None:
        y = w.op.Add(y, w.wide(beta))
    return [w.like(y, x), mean, inverse, w.like(total, x)]


def _multi_head_attention(w: _Writer, inputs: Values) -> list[ir.Value]:
    """Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2, without the projections."""
    query, key, value, *_, bias = (*inputs, None, None, None)[:6]
    queries, keys, values = (
        w.op.Transpose(w.op.Reshape(w.wide(rows), _apart(w, rows)), perm=order)
        for rows, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3]))
    )
    scores = w.op.Mul(w.op.MatMul(queries, keys), w.attribute("scale"))
    weights = w.op.Softmax(scores if bias is None else w.op.Add(scores, w.wide(bias)), axis=-1)
    mixed = w.op.Transpose(w.op.MatMul(weights, values), perm=[0, 2, 1, 3])
    return [w.like(w.op.Reshape(mixed, _apart(w, value, merged=True)), query)]


def _apart(w: _Writer, rows: ir.Value | None, *, merged: bool = False) -> ir.Value:
    """Return the sizes of rows with an axis of heads, or merged again. A size of 0 is that of the input."""
    heads, width = w.attributes["num_heads"], last_size(rows)
    if isinstance(heads, int) and width is not None:
        return w.op.integers(*([0, 0, width] if merged else [0, 0, heads, width // heads]))
    widths = [w.op.Shape(rows, start=2)]
    if not merged:
        count = w.op.Unsqueeze(w.attribute("num_heads"), w.op.integers(0))
        widths = [count, w.op.Div(*widths, count)]
    return w.op.Concat(w.op.integers(0, 0), *widths, axis=0)


@dataclass(frozen=True)
class Body:
    """The body of an operator.

    Attributes:
        write: Function that writes the body and returns its outputs.
        inputs: Names of all inputs, the optional ones last.
        required: Number of inputs that are not optional.
        outputs: Names of the outputs.
        attributes: Attributes that the body reads, with ONNX Runtime's defaults.
    """

    write: Callable[[_Writer, Values], list[ir.Value]]
    inputs: tuple[str, ...]
    required: int
    outputs: tuple[str, ...] = ("y",)
    attributes: Mapping[str, float | int | str] = field(default_factory=dict)


_STATISTICS = ("y", "mean", "inv_std_var", "input_skip_bias_sum")
_EPSILON = {"epsilon": 1e-12}

BODIES: Mapping[str, Body] = {
    "Gelu": Body(_gelu, ("x",), 1),
    "BiasGelu": Body(_gelu, ("x", "bias"), 2),
    "FastGelu": Body(_fast_gelu, ("x", "bias"), 1),
    "QuickGelu": Body(_quick_gelu, ("x",), 1, attributes={"alpha": 1.702}),
    "FusedGemm": Body(
        _fused_gemm,
        ("a", "b", "c"),
        2,
        attributes={"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, "activation": "", "activation_alpha": 0.0},
    ),
    "SkipLayerNormalization": Body(_skip_layer_norm, ("x", "skip", "gamma", "beta", "bias"), 3, _STATISTICS, _EPSILON),
    "SkipSimplifiedLayerNormalization": Body(_skip_rms_norm, ("x", "skip", "gamma", "bias"), 3, _STATISTICS, _EPSILON),
    "MultiHeadAttention": Body(
        _multi_head_attention,
        ("query", "key", "value", "input_bias", "key_padding_mask", "attention_bias"),
        3,
        attributes={"num_heads": 1, "scale": 1.0},
    ),
}


def of(node: ir.Node) -> Body | None:
    """Return the body of a node's operator, or None if none is defined here."""
    body = BODIES.get(node.op_type) if node.domain == DOMAIN else None
    if body is None or not body.required <= len(node.inputs) <= len(body.inputs):
        return None
    if node.op_type == "FusedGemm" and node.attributes.get_string("activation", "") not in FUSED_GEMM:
        return None
    if any(value is None for value in node.inputs[: body.required]) or len(node.outputs) > len(body.outputs):
        return None
    if node.op_type == "MultiHeadAttention" and not _is_plain(node):
        return None
    return body


def _is_plain(node: ir.Node) -> bool:
    """Whether an attention has queries, keys and values in rows, and a bias of the scores at most.

    A graph may state no shapes; fusion writes attention of rows alone.
    """
    ranks = set(map(rank, node.inputs[:3]))
    if ATTENTION in rules_of(node):
        ranks = (ranks - {None}) or {3}
    has_more = any(value is not None for value in node.inputs[3:5]) or node.attributes.get_int("unidirectional", 0) != 0
    return ranks == {3} and not has_more and node.attributes.get_float("scale", 0.0) != 0


def dtype_of(node: ir.Node) -> ir.DataType | None:
    """Return the dtype of a node's operands, which is the same for all operands of these operators."""
    return next((value.dtype for value in node.inputs if value is not None and value.dtype is not None), None)


def attributes_of(node: ir.Node, body: Body) -> dict[str, Any]:
    """Return the attributes that a body reads, from the node or by default."""
    found = {name: attribute.value for name, attribute in node.attributes.items() if name in body.attributes}
    defaults = dict(body.attributes)
    alpha = FUSED_GEMM.get(str(found.get("activation", "")))
    if alpha is not None:
        defaults["activation_alpha"] = alpha
    return defaults | found


def write(op: Builder, operator: str, inputs: Values, setting: Setting, attributes: Attributes) -> list[ir.Value]:
    """Write the body of an operator, and return all its outputs."""
    return BODIES[operator].write(_Writer(op, setting, attributes), inputs)
