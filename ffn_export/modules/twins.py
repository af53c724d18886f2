"""Make the NumPy float64 twin of a torch reference module, weights included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ffn_export.core.activations import TABLE
from ffn_export.errors import UsageError
from ffn_export.modules import numpy_twin
from ffn_export.modules.activations import Formula
from ffn_export.modules.add_norm import AddNorm
from ffn_export.modules.block import AddNormFeedForward, FeedForwardBlock
from ffn_export.modules.conv import ConvFeedForward
from ffn_export.modules.feed_forward import FeedForward
from ffn_export.modules.gated import GatedFeedForward
from ffn_export.modules.norms import OffsetRMSNorm
from ffn_export.modules.numpy_twin import FloatArray

Twin = Callable[..., FloatArray]


def twin_of(module: nn.Module) -> Twin:
    """Return the NumPy function of a reference module in eval mode.

    The weights are copied in float64. Later changes of the module do not change the twin.

    Args:
        module: One of this package's modules, or a Linear, LayerNorm, RMSNorm or activation in one.

    Returns:
        A function that takes the arrays of ``forward``, in any dtype, and returns one float64 array.

    Raises:
        UsageError: The module's type has no twin. A subclass has none either, since it may override
            ``forward``.
    """
    make = _TWINS.get(type(module))
    if make is None:
        known = ", ".join(sorted(each.__name__ for each in _TWINS))
        raise UsageError(f"{type(module).__name__} has no NumPy twin; there is one for: {known}")
    return make(module)


def _array(parameter: Tensor) -> FloatArray:
    return parameter.detach().cpu().double().numpy().astype(np.float64, copy=True)


def _optional(parameter: Tensor | None) -> FloatArray | None:
    return None if parameter is None else _array(parameter)


def _linear(module: nn.Linear) -> Twin:
    return partial(numpy_twin.linear, weight=_array(module.weight), bias=_optional(module.bias))


def _layer_norm(module: nn.LayerNorm) -> Twin:
    return partial(
        numpy_twin.layer_norm,
        normalized_shape=module.normalized_shape,
        weight=1.0 if module.weight is None else _array(module.weight),
        bias=0.0 if module.bias is None else _array(module.bias),
        eps=module.eps,
    )


def _rms_norm(module: nn.RMSNorm) -> Twin:
    if module.eps is None:
        raise UsageError("this RMSNorm takes its epsilon from the input's dtype: give eps explicitly")
    return partial(
        numpy_twin.rms_norm,
        normalized_shape=module.normalized_shape,
        weight=1.0 if module.weight is None else _array(module.weight),
        eps=module.eps,
    )


def _offset_rms_norm(module: OffsetRMSNorm) -> Twin:
    return partial(_rms_norm(module), offset=1.0)


def _feed_forward(module: FeedForward) -> Twin:
    return partial(
        numpy_twin.feed_forward,
        weight_1=_array(module.linear_1.weight),
        bias_1=_optional(module.linear_1.bias),
        weight_2=_array(module.linear_2.weight),
        bias_2=_optional(module.linear_2.bias),
        activation=twin_of(module.activation),
    )


def _conv_feed_forward(module: ConvFeedForward) -> Twin:
    return partial(
        numpy_twin.conv_feed_forward,
        weight_1=_array(module.conv_1.weight),
        bias_1=_optional(module.conv_1.bias),
        weight_2=_array(module.conv_2.weight),
        bias_2=_optional(module.conv_2.bias),
        activation=twin_of(module.activation),
    )


def _gated_feed_forward(module: GatedFeedForward) -> Twin:
    activation = twin_of(module.activation)
    down, down_bias = _array(module.down.weight), _optional(module.down.bias)
    if module.packed:
        return partial(
            numpy_twin.packed_gated_feed_forward,
            gate_up=_array(module.gate_up.weight),
            down=down,
            gate_up_bias=_optional(module.gate_up.bias),
            down_bias=down_bias,
            activation=activation,
        )
    return partial(
        numpy_twin.gated_feed_forward,
        gate=_array(module.gate.weight),
        up=_array(module.up.weight),
        down=down,
        gate_bias=_optional(module.gate.bias),
        up_bias=_optional(module.up.bias),
        down_bias=down_bias,
        activation=activation,
    )


def _add_norm(module: AddNorm) -> Twin:
    return partial(numpy_twin.add_norm, norm=twin_of(module.norm))


def _block(module: FeedForwardBlock) -> Twin:
    return partial(
        numpy_twin.block,
        feed_forward=twin_of(module.feed_forward),
        norm=None if module.norm is None else twin_of(module.norm),
        norm_position=module.norm_position,
    )


def _add_norm_feed_forward(module: AddNormFeedForward) -> Twin:
    feed_forward, add_norm = twin_of(module.feed_forward), twin_of(module.add_norm)

    def twin(x: ArrayLike) -> FloatArray:
        return add_norm(x, feed_forward(x))

    return twin


def _formula(module: Formula) -> Twin:
    return numpy_twin.ACTIVATIONS[module.name]


def _activation(module: nn.Module) -> Twin:
    """Return the formula in the table with the constants of the module."""
    of_class = [each for each in TABLE.values() if each.torch == type(module).__name__]
    for each in of_class:
        if all(getattr(module, name) == value for name, value in each.constants.items()):
            return numpy_twin.ACTIVATIONS[each.name]
    known = " or ".join(f"{name}={value}" for each in of_class for name, value in each.constants.items())
    raise UsageError(f"{type(module).__name__} has a NumPy twin for {known} only")


# Looked up by exact type: an OffsetRMSNorm must not get the twin of its base class RMSNorm.
_TWINS: dict[type[nn.Module], Callable[[Any], Twin]] = {
    FeedForward: _feed_forward,
    GatedFeedForward: _gated_feed_forward,
    ConvFeedForward: _conv_feed_forward,
    AddNorm: _add_norm,
    FeedForwardBlock: _block,
    AddNormFeedForward: _add_norm_feed_forward,
    OffsetRMSNorm: _offset_rms_norm,
    nn.Linear: _linear,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _rms_norm,
    Formula: _formula,
    **{getattr(nn, each.torch): _activation for each in TABLE.values() if isinstance(each.torch, str)},
}
