"""Replace operators that torch's exporter does not translate, or translates wrongly, by other operators.

- ``Conv1d`` of kernel size 1 becomes a matrix product. A ``Conv`` node fails in ONNX Runtime on an empty sequence, and
  no fusion of feed-forwards recognises it.
- ``logsigmoid`` becomes ``-softplus(-x)``, which is right everywhere. The translation is the logarithm of ``Sigmoid``,
  which is minus infinity from -104 on.
- ``logaddexp`` and ``logaddexp2`` become the larger number plus ``softplus`` of minus the distance. The translation is
  the logarithm of a sum of exponentials, which is infinite from 89 on, and minus infinity below -104.
- ``1.0 - mask`` of an integer mask becomes a difference in floating point. The translation takes no mixed dtypes.
- ``clamp`` becomes ``hardtanh`` with both bounds. With one bound, the translation is a ``Clip`` for which ONNX Runtime
  turns infinity into the largest number; in half precision it is a ``Max`` and a ``Min``. ``hardtanh`` is a ``Clip`` in
  every dtype.
- ``logit`` with an epsilon becomes the logarithm of a quotient of clips. The translation compares with the bounds, and
  makes NaN the upper one.
- Attention with a floating-point mask becomes its formula, if the program contains minus infinity. A row that sees no
  key is 0 in PyTorch, and NaN in the translation.
- ``softmax``, ``log_softmax`` and ``mean`` with a dtype get a cast before them. The translation casts what they return:
  it computes in half precision where the module does in float32.
- ``any`` and ``all`` become counts. The translation of ``any`` is the largest integer, which over nothing is the
  smallest integer there is, so True. ONNX Runtime also returns a wrong shape for it there.
- ``repeat_interleave`` along an axis becomes an expansion of a new axis. The translation reshapes to a shape in which 0
  is not itself, so an axis behind that may be empty has no known size, and attention with repeated heads is not fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

_aten = torch.ops.aten
_ANY = (_aten.any.default, _aten.any.dim, _aten.any.dims)
_ALL = (_aten.all.default, _aten.all.dim, _aten.all.dims)
_ATTENTION = _aten.scaled_dot_product_attention.default


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program with these operators replaced, or the program itself if it has none."""
    parts = (part for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule))
    nodes = [node for part in parts for node in part.graph.nodes]  # autocast makes a part
    entries = {op: each for op, each in _TABLE.items() if op is not _ATTENTION or _hides(nodes)}
    if not any(node.target in entries and _fits(node) for node in nodes):
        return program
    # backed_size_oblivious: as in the trace, a layout that differs at size 1 adds no guard.
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        table: dict[OpOverload, Callable[..., Any]] = {op: partial(_replaced, *each) for op, each in entries.items()}
        result: torch.export.ExportedProgram = program.run_decompositions(table)
    result._guards_code = program._guards_code  # the guards also hold for the replacements
    return result


def _fits(node: torch.fx.Node) -> bool:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    return _TABLE[node.target][0](*args, **kwargs)


def _replaced(fits: Callable[..., bool], write: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Any:
    """Return the result of the other operators, or NotImplemented to keep the operator."""
    return write(*args, **kwargs) if fits(*args, **kwargs) else NotImplemented


def _is_pointwise(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> bool:
    del x, bias, dilation  # dilation has no effect for a kernel of size 1
    return weight.shape[-1] == 1 and list(stride) == [1] and list(padding) == [0] and groups == 1


def _conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *_: Any) -> Tensor:
    """``conv1d``: x [batch, in, length], weight [out, in, 1] -> [batch, out, length]."""
    return torch.nn.functional.linear(x.transpose(-1, -2), weight.squeeze(-1), bias).transpose(-1, -2)


def _is_mixed(x: Tensor, number: float, alpha: float = 1) -> bool:
    return torch.result_type(x, number) != x.dtype


def _rsub(x: Tensor, number: float, alpha: float = 1) -> Tensor:
    """Return ``number - alpha * x`` in the promoted dtype of both."""
    return torch.rsub(x.to(torch.result_type(x, number)), number, alpha=alpha)


def _has_softplus(x: Tensor) -> bool:
    return x.dtype is not torch.float64  # ONNX Runtime has no kernel of Softplus for float64


def _log_sigmoid(x: Tensor) -> Tensor:
    return -torch.nn.functional.softplus(-x)


def _log_add_exp(x: Tensor, other: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    """Return ``log(exp(scale * x) + exp(scale * other)) / scale``."""
    # Equal numbers are at a distance of 0, also infinite ones, whose difference is NaN.
    smaller = -scale * torch.where(x == other, 0.0, (x - other).abs())
    # Softplus takes bfloat16 from opset 22 on, and ONNX Runtime has no kernel of it for float64.
    is_of_softplus = smaller.dtype in (torch.float16, torch.float32)
    added = torch.nn.functional.softplus(smaller) if is_of_softplus else torch.log1p(torch.exp(smaller))
    return torch.maximum(x, other) + added / scale


def _log_add_exp2(x: Tensor, other: Tensor) -> Tensor:
    two = x.new_full((), 2.0, dtype=torch.result_type(x, other))
    return _log_add_exp(x, other, two.log())  # the translation rounds a number to float32, also log(2) in float64


def _is_clip(x: Tensor, low: float | None = None, high: float | None = None) -> bool:
    bounds = _bounds(low, high)
    # A bound that is a size of the input is symbolic, not a number.
    known = x.is_floating_point() and all(isinstance(bound, (int, float)) for bound in bounds)
    return known and bounds[0] <= bounds[1]


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    return -math.inf if low is None else low, math.inf if high is None else high


def _clamp(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    return torch.nn.functional.hardtanh(x, *_bounds(low, high))


def _logit(x: Tensor, epsilon: float) -> Tensor:
    # The lower limit holds where both do, which happens above 0.5. A comparison with NaN is false, so that NaN stays.
    below = torch.where(x > 1 - epsilon, 1 - epsilon, x)
    inner = torch.where(x < epsilon, epsilon, below)
    return torch.log(inner / (1 - inner))


def _has_epsilon(x: Tensor, epsilon: float | None = None) -> bool:
    return epsilon is not None and x.is_floating_point()


def _hides(nodes: Sequence[torch.fx.Node]) -> bool:
    """Whether a program contains minus infinity, as in a mask, and no attention of ``nn.MultiheadAttention``.

    Without gradients, ``nn.MultiheadAttention`` takes another path, which gives NaN for a row that sees no key.
    """
    stacks = (str(node.meta.get("nn_module_stack", "")) for node in nodes if node.target is _ATTENTION)
    if any("MultiheadAttention" in stack for stack in stacks):
        return False
    return any(-math.inf in (*node.args, *node.kwargs.values()) for node in nodes)


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
    """Return attention by its formula, with 0 for a row whose scores are all hidden."""
    mask, scale = options[0] if options else named["attn_mask"], named.get("scale")
    root = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5  # scales both, as PyTorch: keeps scores small
    scores = (query * root) @ (key * root).transpose(-1, -2) + mask
    is_hidden = scores == -math.inf
    # Hide element by element: in a fully hidden row all scores are equal, and all of its weights become 0.
    weights = scores.masked_fill(is_hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
    attended: Tensor = weights.masked_fill(is_hidden, 0.0) @ value
    return attended


def _is_cast(x: Tensor, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> bool:
    return dtype is not None and dtype != x.dtype


def _is_softmax_cast(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> bool:
    return _is_cast(x, dim, dtype=dtype)


def _softmax(x: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).softmax(dim)


def _log_softmax(x: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).log_softmax(dim)


def _mean(x: Tensor, *args: Any, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).mean(*args)


def _repeats_axis(x: Tensor, repeats: Any, dim: int | None = None, **_: Any) -> bool:
    return dim is not None and x.ndim > 0


def _repeat_interleave(x: Tensor, repeats: Any, dim: int, **_: Any) -> Tensor:
    """Repeat each element of an axis in place."""
    axis = dim % x.ndim
    sizes = [-1] * x.ndim
    sizes.insert(axis + 1, repeats)
    return x.unsqueeze(axis + 1).expand(sizes).flatten(axis, axis + 1)


def _any(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return whether the number of elements other than 0 is above 0."""
    is_set = x if x.dtype is torch.bool else x != 0
    return _of_dtype(is_set.sum(_counted(x, dim), keepdim) > 0, x)


def _all(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return whether the number of zeros is 0."""
    is_clear = ~x if x.dtype is torch.bool else x == 0
    return _of_dtype(is_clear.sum(_counted(x, dim), keepdim) == 0, x)


def _counted(x: Tensor, dim: int | Sequence[int] | None) -> list[int] | None:
    """Return axes counted from the first: ONNX Runtime does not reduce an empty tensor over a negative axis."""
    if dim is None:
        return None
    return [axis % max(x.ndim, 1) for axis in ([dim] if isinstance(dim, int) else dim)]


def _of_dtype(found: Tensor, x: Tensor) -> Tensor:
    return found.to(torch.uint8) if x.dtype is torch.uint8 else found


# Operator -> whether it is replaced, given its arguments, and its replacement.
_TABLE: Mapping[Any, tuple[Callable[..., bool], Callable[..., Tensor]]] = {
    **dict.fromkeys(_ANY, (lambda *_, **__: True, _any)),
    **dict.fromkeys(_ALL, (lambda *_, **__: True, _all)),
    _aten.clamp.default: (_is_clip, _clamp),
    _aten.clamp_max.default: (_is_clip, lambda x, high: _clamp(x, None, high)),  # which bound it is makes no difference
    _aten.clamp_min.default: (_is_clip, _clamp),
    _aten.conv1d.default: (_is_pointwise, _conv1d),
    _aten.logit.default: (_has_epsilon, _logit),
    _aten.log_sigmoid.default: (_has_softplus, _log_sigmoid),
    _aten.log_softmax.int: (_is_softmax_cast, _log_softmax),
    _aten.mean.dim: (_is_cast, _mean),
    _aten.logaddexp.default: (lambda *_: True, _log_add_exp),
    _aten.logaddexp2.default: (lambda *_: True, _log_add_exp2),
    _aten.repeat_interleave.self_int: (_repeats_axis, _repeat_interleave),
    _aten.rsub.Scalar: (_is_mixed, _rsub),
    _aten.softmax.int: (_is_softmax_cast, _softmax),
    _aten.special_log_softmax.default: (_is_softmax_cast, _log_softmax),
    _aten.special_softmax.default: (_is_softmax_cast, _softmax),
    _ATTENTION: (_is_masked, _masked_attention),
}
