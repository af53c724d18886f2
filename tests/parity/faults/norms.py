"""Norms with another epsilon, another statistic, over other axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from tests.parity.faults.edit import Editor, behind, node_of, output_of, replaced
from tests.parity.faults.fault import Fault, bound, check, non_finite

_NORMS = ("LayerNormalization", "RMSNormalization")


def epsilon(value: float) -> Callable[[ir.Model], None]:
    """Change the epsilon of the first norm."""

    def plant(model: ir.Model) -> None:
        node = node_of(model, *_NORMS)
        assert node.attributes.get_float("epsilon", 1e-5) != value
        node.attributes["epsilon"] = ir.AttrFloat32("epsilon", value)

    return plant


def _without_epsilon(model: ir.Model) -> None:
    """Leave the attribute out: ONNX then says 1e-5."""
    del node_of(model, *_NORMS).attributes["epsilon"]


def _axis(model: ir.Model, axis: int) -> None:
    node = node_of(model, *_NORMS)
    node.attributes["axis"] = ir.AttrInt64("axis", axis)


def written(change: Callable[[Editor, Sequence[ir.Value]], ir.Value]) -> Callable[[ir.Model], None]:
    """Compute something else where the first norm is."""
    return lambda model: replaced(model, node_of(model, *_NORMS), change)


_EPSILON = 1e-5
_LAST = -1


def _centred(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.Sub(x, edit.ReduceMean(x, edit.whole(_LAST)))


def _over(edit: Editor, centred: ir.Value, variance: ir.Value) -> ir.Value:
    return edit.Div(centred, edit.Sqrt(edit.Add(variance, edit.number(_EPSILON))))


def _affine(edit: Editor, normed: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
    return edit.Add(edit.Mul(normed, scale), bias)


def _unbiased(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale, bias = inputs
    centred = _centred(edit, x)
    squares = edit.ReduceSum(edit.Mul(centred, centred), edit.whole(_LAST))
    one_less = edit.Sub(edit.Cast(edit.size(x, _LAST), to=ir.DataType.FLOAT), edit.number(1))
    return _affine(edit, _over(edit, centred, edit.Div(squares, one_less)), scale, bias)


def _difference_of_squares(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale, bias = inputs
    mean = edit.ReduceMean(x, edit.whole(_LAST))
    variance = edit.Sub(edit.ReduceMean(edit.Mul(x, x), edit.whole(_LAST)), edit.Mul(mean, mean))
    return _affine(edit, _over(edit, _centred(edit, x), edit.Relu(variance)), scale, bias)


def _epsilon_outside(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale, bias = inputs
    centred = _centred(edit, x)
    variance = edit.ReduceMean(edit.Mul(centred, centred), edit.whole(_LAST))
    spread = edit.Add(edit.Sqrt(variance), edit.number(_EPSILON))
    return _affine(edit, edit.Div(centred, spread), scale, bias)


def _uncentred(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale, bias = inputs
    square = edit.ReduceMean(edit.Mul(x, x), edit.whole(_LAST))
    return _affine(edit, _over(edit, x, square), scale, bias)


def _centred_rms(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale = inputs
    return edit.LayerNormalization(x, scale, epsilon=1e-6)


def _without_scale(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, _, bias = inputs
    return edit.LayerNormalization(x, edit.number(*[1.0] * 32), bias)


def _without_bias(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    x, scale, _ = inputs
    return edit.LayerNormalization(x, scale)


def _over_tokens(edit: Editor, inputs: Sequence[ir.Value]) -> ir.Value:
    """The statistics of each feature over the sequence."""
    x, scale, bias = inputs
    centred = edit.Sub(x, edit.ReduceMean(x, edit.whole(1)))
    variance = edit.ReduceMean(edit.Mul(centred, centred), edit.whole(1))
    return _affine(edit, _over(edit, centred, variance), scale, bias)


def _sum_for_mean(model: ir.Model) -> None:
    node = node_of(model, "ReduceMean")
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    replaced(model, node, lambda edit, inputs: edit.ReduceSum(*inputs, **attributes))


def _twice(model: ir.Model) -> None:
    scale, bias = node_of(model, "LayerNormalization").inputs[1:]
    behind(model, output_of(model), lambda edit, y: edit.LayerNormalization(y, scale, bias))


FAULTS = (
    Fault(
        "epsilon-times-10",
        "an epsilon of 1e-4 for 1e-5",
        ("post_norm", "pre_norm", "decoder", "gpt2-ffn"),
        (bound(),),
        epsilon(1e-4),
    ),
    Fault(
        "epsilon-over-10",
        "an epsilon of 1e-6 for 1e-5",
        ("post_norm", "pre_norm", "decoder", "gpt2-ffn"),
        (bound(),),
        epsilon(1e-6),
    ),
    Fault(
        "rms-epsilon-times-10", "an epsilon of 1e-5 for 1e-6", ("swiglu", "t5-ffn"), (bound("small"),), epsilon(1e-5)
    ),
    Fault("rms-epsilon-over-10", "an epsilon of 1e-7 for 1e-6", ("swiglu", "t5-ffn"), (bound("small"),), epsilon(1e-7)),
    Fault("epsilon-unseen", "an epsilon of 1e-11 for 1e-12", ("bert-ffn",), (check("epsilons"),), epsilon(1e-11)),
    Fault(
        "epsilon-tiny",
        "an epsilon of 1e-12 for 1e-5",
        ("post_norm", "d2l-addnorm", "transformer-base"),
        (bound(),),
        epsilon(1e-12),
    ),
    Fault(
        "epsilon-absent", "no epsilon, for which ONNX takes 1e-5", ("swiglu", "bert-ffn"), (bound(),), _without_epsilon
    ),
    Fault(
        "epsilon-outside",
        "epsilon added to the root and not under it",
        ("post_norm",),
        (bound(),),
        written(_epsilon_outside),
    ),
    Fault(
        "epsilon-zero",
        "no epsilon under the root: constant rows divide zero by zero",
        ("d2l-addnorm",),
        (non_finite("constant"),),
        epsilon(0.0),
    ),
    Fault(
        "unbiased-variance",
        "the unbiased variance for the biased one",
        ("post_norm",),
        (bound("normal"),),
        written(_unbiased),
    ),
    Fault(
        "difference-of-squares",
        "a variance that is the mean square less the squared mean",
        ("pre_norm",),
        (bound("offset"),),
        written(_difference_of_squares),
    ),
    Fault(
        "rms-for-layer-norm",
        "no mean subtracted in a LayerNorm",
        ("post_norm",),
        (bound("normal"),),
        written(_uncentred),
    ),
    Fault(
        "layer-norm-for-rms", "a mean subtracted in an RMSNorm", ("swiglu",), (bound("normal"),), written(_centred_rms)
    ),
    Fault("sum-for-mean", "a sum for the mean of the squares", ("swiglu_exported",), (bound("normal"),), _sum_for_mean),
    Fault(
        "norm-over-tokens-too",
        "a norm over the sequence and the features",
        ("post_norm", "pre_norm"),
        (bound("normal"),),
        lambda model: _axis(model, 1),
    ),
    Fault(
        "norm-over-last-only",
        "a norm over the last of its two axes",
        ("d2l-addnorm",),
        (bound("normal"),),
        lambda model: _axis(model, -1),
    ),
    Fault(
        "norm-over-tokens",
        "a norm of each feature over the sequence",
        ("pre_norm",),
        (bound("normal"),),
        written(_over_tokens),
    ),
    Fault(
        "norm-scale-missing", "a norm without its scale", ("post_norm",), (bound("normal"),), written(_without_scale)
    ),
    Fault("norm-bias-missing", "a norm without its bias", ("post_norm",), (bound("normal"),), written(_without_bias)),
    Fault("norm-twice", "a norm applied twice", ("post_norm",), (bound("normal"),), _twice),
)
