"""Operators that torch's exporter does not translate, or badly, written as others before it sees them.

- A kernel-1 ``Conv1d`` is a matrix product. As a ``Conv`` node it fails in ONNX Runtime on an empty sequence, and
  nothing that fuses feed-forwards recognises it.
- ``logsigmoid`` is the logarithm of ``Sigmoid`` there, which is minus infinity from -104 on; as ``-softplus(-x)`` it is
  right everywhere.
- ``1.0 - mask`` of an integer mask is a difference in floating point: the translation takes no two dtypes.
- ``clamp`` with one bound is a ``Clip`` with one, for which ONNX Runtime makes the largest number of an infinity: the
  other bound is said. And in half precision it is a ``Max`` and a ``Min``; ``hardtanh`` is a ``Clip`` in any.
- Attention with a mask of floats gives 0 for a row that sees no key; the translation gives NaN. It is written out where
  the program holds minus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

_aten = torch.ops.aten
_ATTENTION = _aten.scaled_dot_product_attention.default


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program with these operators written as others; itself where it has none."""
    if not any(_is_decomposed(node) for node in program.graph.nodes):
        return program
    # backed_size_oblivious: as in the trace, a layout that differs at size 1 is not taken as a guard.
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        table = {op: each for op, each in _TABLE.items() if op is not _ATTENTION or _hides(program.graph)}
        result: torch.export.ExportedProgram = program.run_decompositions(table)
    result._guards_code = program._guards_code  # they hold for what they are written as, too
    return result


def _is_decomposed(node: torch.fx.Node) -> bool:
    fits = _FITS.get(node.target)
    if fits is None or (node.target is _ATTENTION and not _hides(node.graph)):
        return False
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    return fits(*args, **kwargs)


def _is_pointwise(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> bool:
    del x, bias, dilation  # which has no meaning for a kernel of size 1
    return weight.shape[-1] == 1 and list(stride) == [1] and list(padding) == [0] and groups == 1


def _conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *geometry: Any) -> Tensor:
    """``conv1d``: x [batch, in, length], weight [out, in, 1] -> [batch, out, length]."""
    if not _is_pointwise(x, weight, bias, *geometry):
        result: Tensor = NotImplemented
        return result
    return torch.nn.functional.linear(x.transpose(-1, -2), weight.squeeze(-1), bias).transpose(-1, -2)


def _is_mixed(x: Tensor, number: float, alpha: float = 1) -> bool:
    return torch.result_type(x, number) != x.dtype


def _rsub(x: Tensor, number: float, alpha: float = 1) -> Tensor:
    """``number - alpha * x``, in the dtype that both have together."""
    if not _is_mixed(x, number):
        result: Tensor = NotImplemented
        return result
    return torch.rsub(x.to(torch.result_type(x, number)), number, alpha=alpha)


def _has_softplus(x: Tensor) -> bool:
    return x.dtype is not torch.float64  # for which ONNX Runtime has no kernel


def _log_sigmoid(x: Tensor) -> Tensor:
    if not _has_softplus(x):
        result: Tensor = NotImplemented
        return result
    return -torch.nn.functional.softplus(-x)


def _is_clip(x: Tensor, low: float | None = None, high: float | None = None) -> bool:
    bounds = _bounds(low, high)
    # A bound that is a size of the input is no number yet.
    known = x.is_floating_point() and all(isinstance(bound, (int, float)) for bound in bounds)
    return known and bounds[0] <= bounds[1]


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    return -math.inf if low is None else low, math.inf if high is None else high


def _clamp(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    if not _is_clip(x, low, high):
        result: Tensor = NotImplemented
        return result
    return torch.nn.functional.hardtanh(x, *_bounds(low, high))


def _clamp_max(x: Tensor, high: float) -> Tensor:
    return _clamp(x, None, high)


def _hides(graph: torch.fx.Graph) -> bool:
    """Whether a program writes minus infinity anywhere, as a mask would, and has no attention of PyTorch's own layers.

    Where nobody asks for gradients, those take another way, which gives NaN for such a row.
    """
    stacks = (str(node.meta.get("nn_module_stack", "")) for node in graph.nodes if node.target is _ATTENTION)
    if any("MultiheadAttention" in stack for stack in stacks):
        return False
    return any(-math.inf in (*node.args, *node.kwargs.values()) for node in graph.nodes)


def _is_masked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> bool:
    del query, key, value, scale
    by_floats = attn_mask is not None and attn_mask.dtype is not torch.bool
    return by_floats and not (dropout_p or is_causal or enable_gqa)


def _masked_attention(query: Tensor, key: Tensor, value: Tensor, *options: Any, **named: Any) -> Tensor:
    """Attention by its formula, 0 where every score is hidden."""
    if not _is_masked(query, key, value, *options, **named):
        result: Tensor = NotImplemented
        return result
    mask, scale = options[0] if options else named["attn_mask"], named.get("scale")
    root = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5  # of both, as PyTorch does, for small scores
    scores = (query * root) @ (key * root).transpose(-1, -2) + mask
    is_hidden = scores == -math.inf
    # By elements alone: where a whole row is hidden its softmax is of equal numbers, none of which is taken.
    weights = scores.masked_fill(is_hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
    attended: Tensor = weights.masked_fill(is_hidden, 0.0) @ value
    return attended


# Operator -> whether it is written as others here, asked of its arguments; and what it is written as.
_FITS: Mapping[Any, Callable[..., bool]] = {
    _aten.clamp.default: _is_clip,
    _aten.clamp_max.default: _is_clip,  # whichever bound it is
    _aten.clamp_min.default: _is_clip,
    _aten.conv1d.default: _is_pointwise,
    _aten.log_sigmoid.default: _has_softplus,
    _aten.rsub.Scalar: _is_mixed,
    _ATTENTION: _is_masked,
}
_TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _aten.clamp.default: _clamp,
    _aten.clamp_max.default: _clamp_max,
    _aten.clamp_min.default: _clamp,
    _aten.conv1d.default: _conv1d,
    _aten.log_sigmoid.default: _log_sigmoid,
    _aten.rsub.Scalar: _rsub,
    _ATTENTION: _masked_attention,
}
