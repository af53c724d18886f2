"""The arithmetic of a module that loses much in half precision: what each operator computes, by kind.

A module in half precision may compute a norm, a softmax or a sum in float32, by a cast before it. So the kinds of an
operator are counted by the dtype of its result. Torch's attention is counted by the dtype of its queries, where it is
called by its name: on the CPU, one of its kernels computes half precision in float32, and is not the exported one.

Exporters may translate an operator into kinds that PyTorch does not show, or does not compute. In half precision, these
count as the module's. In float32 they do not: a graph that lacks them is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

POWER, SUM, EXPONENTIAL, LOGARITHM, SINE, SOFTMAX, PRODUCT = KINDS = (
    "power or root",
    "sum or mean",
    "exponential",
    "logarithm",
    "sine or cosine",
    "softmax",
    "matrix product",
)
LAYER_NORM: Mapping[str, int] = {SUM: 2, POWER: 2}
RMS_NORM: Mapping[str, int] = {SUM: 1, POWER: 2}
ATTENTION: Mapping[str, int] = {PRODUCT: 2, SOFTMAX: 1}
# Norms as one operator, which compute their statistics in float32 in half precision, too.
NORMS: Mapping[str, Mapping[str, int]] = {"layer norm": LAYER_NORM, "RMS norm": RMS_NORM}
_NORM_OF = {
    "native_group_norm": "layer norm",
    "native_layer_norm": "layer norm",
    "fused_rms_norm": "RMS norm",
    "rms_norm": "RMS norm",
}


def by_name(single: Mapping[str, str], several: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Return operator -> how often it computes each kind.

    Args:
        single: Kind -> the operators that compute it once and no other, separated by spaces.
        several: Operators, separated by spaces -> how often they compute each kind.
    """
    listed = [({kind: 1}, names) for kind, names in single.items()] + [
        (kinds, names) for names, kinds in several.items()
    ]
    return {name: kinds for kinds, names in listed for name in names.split()}


# Operators without the underscores around their names.
_OPERATORS = by_name(
    {
        POWER: "float_power pow rsqrt sqrt square",
        SUM: "adaptive_avg_pool2d avg_pool2d cumsum mean nansum sum",
        EXPONENTIAL: "exp",
        LOGARITHM: "log log10 log1p log2",
        SINE: "cos sin",
        SOFTMAX: "log_softmax safe_softmax softmax",
        PRODUCT: "addbmm addmm addmv baddbmm bmm convolution dot grouped_mm linear matmul mkldnn_linear mm mv",
    },
    {
        "var var_mean": {SUM: 2, POWER: 1},
        "native_group_norm native_layer_norm std std_mean": LAYER_NORM,
        "fused_rms_norm linalg_vector_norm norm rms_norm": RMS_NORM,
        "logcumsumexp logsumexp": {EXPONENTIAL: 1, SUM: 1, LOGARITHM: 1},
        "cdist_forward": {POWER: 2, SUM: 1, PRODUCT: 1},
        "scaled_dot_product_efficient_attention scaled_dot_product_flash_attention": ATTENTION,
        "scaled_dot_product_cudnn_attention scaled_dot_product_flash_attention_for_cpu": ATTENTION,
        "native_multi_head_attention": {PRODUCT: 4, SOFTMAX: 1},
        "transformer_encoder_layer_fwd": {PRODUCT: 6, SOFTMAX: 1, SUM: 4, POWER: 5},
    },
)
# Operators, and functions of torch that hide theirs, that may be translated into these.
_TRANSLATED = by_name(
    {
        POWER: "gelu",
        SUM: "embedding_bag huber_loss smooth_l1_loss",
        EXPONENTIAL: "expm1",
        LOGARITHM: "log_sigmoid_forward logit xlogy",
        SINE: "sinc",
        PRODUCT: "outer",
    },
    {
        "binary_cross_entropy binary_cross_entropy_with_logits": {EXPONENTIAL: 1, SUM: 1, LOGARITHM: 2},
        "dist": RMS_NORM,
        "exp2": {EXPONENTIAL: 1, POWER: 1},
        "einsum": {PRODUCT: 1, SUM: 1},
        "logaddexp": {EXPONENTIAL: 2, LOGARITHM: 1},
        "mse_loss": {POWER: 1, SUM: 1},
        "trilinear": {PRODUCT: 2},
    },
)


class Arithmetic(TorchFunctionMode):
    """Counts the kinds that operators compute while the mode is on.

    Attributes:
        counted: Kind, or one of :data:`NORMS`, and whether it was computed in half precision -> how often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[tuple[str, bool]] = Counter()
        self._in_attention = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = kwargs or {}
        name = _name(func)
        if name in ("einsum", "outer"):
            self._add(_TRANSLATED[name], _first_tensor((args, given)), is_sure=False)
        elif name == "instance_norm" and given.get("use_input_stats", True):
            self._add(LAYER_NORM, _first_tensor((args, given)))
        if name != "scaled_dot_product_attention":
            return func(*args, **given)
        self._add(ATTENTION, args[0] if args else given["query"])
        self._in_attention = True
        try:
            return func(*args, **given)
        finally:
            self._in_attention = False

    def note(self, packet: Any, given: list[Any], result: Any) -> None:
        """Count an operator, given its arguments and its result."""
        name = _name(packet)
        is_square = name in ("mul", "addcmul") and len(given) > 1 and _are_same(*given[-2:])
        made = _first_tensor(result)
        if not self._in_attention:
            self._add({POWER: 1} if is_square else _OPERATORS.get(name, {}), made)
            self._add(_TRANSLATED.get(name, {}), made, is_sure=False)
            self._add({_NORM_OF[name]: 1} if name in _NORM_OF else {}, made)

    def _add(self, kinds: Mapping[str, int], tensor: torch.Tensor | None, *, is_sure: bool = True) -> None:
        if tensor is not None and tensor.is_floating_point() and (is_sure or is_half(tensor.dtype)):
            for kind, count in kinds.items():
                self.counted[kind, is_half(tensor.dtype)] += count


def _name(func: Any) -> str:
    """Return the name of a function or an operator, without its overload and the underscores around it."""
    packet = getattr(func, "overloadpacket", func)
    return str(getattr(packet, "__name__", packet)).strip("_")


def _first_tensor(values: Any) -> torch.Tensor | None:
    return next((leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)), None)


def _are_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same, or the same view of one: an exported graph has one value for both."""
    if a is b:
        return True
    if a.layout is not torch.strided or b.layout is not torch.strided or a.is_nested or b.is_nested or not a.numel():
        return False  # sparse tensors have no address, and empty ones share theirs
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def is_half(dtype: torch.dtype) -> bool:
    """Whether a dtype has two bytes or less."""
    return dtype.itemsize <= torch.float16.itemsize
