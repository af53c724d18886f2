"""Norms over trailing dimensions: LayerNorm, RMSNorm, and RMSNorm with an offset scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from torch import Tensor, nn
from torch.nn import functional as F

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.modules import arguments


class OffsetRMSNorm(nn.RMSNorm):
    """RMSNorm that scales by 1 + weight: x / sqrt(mean(x^2) + eps) * (1 + weight).

    The weight is initialised to zero, which gives the norm without a scale.
    Source: Gemma Team 2024, as in ``transformers.models.gemma.modeling_gemma.GemmaRMSNorm``.

    Args:
        normalized_shape: The trailing dimensions to normalise over, one or several.
        eps: Epsilon added to the mean square; 1e-6 in Gemma.

    Raises:
        UsageError: The shape is empty or not positive, or eps is not positive.
    """

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-6) -> None:
        super().__init__(list(arguments.shape("normalized_shape", normalized_shape)), eps=arguments.epsilon(eps))

    def reset_parameters(self) -> None:
        """Set the weight to zero: the scale is then 1."""
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., *normalized_shape] to the same shape and dtype."""
        return F.rms_norm(x, self.normalized_shape, 1.0 + self.weight, self.eps)


# Kind -> default epsilon. LayerNorm has PyTorch's. RMSNorm has that of T5, Gemma and the first Llama,
# because PyTorch's default depends on the dtype of the input.
NORMS: Mapping[str, float] = MappingProxyType({"layer_norm": 1e-5, "rms_norm": 1e-6, "offset_rms_norm": 1e-6})


def make_norm(kind: str, normalized_shape: int | Sequence[int], eps: float | None = None) -> nn.Module:
    """Return a new norm over the trailing dimensions; it keeps shape and dtype.

    LayerNorm is Ba, Kiros and Hinton 2016; RMSNorm is Zhang and Sennrich 2019.

    Args:
        kind: ``layer_norm`` (scale and bias), ``rms_norm`` or ``offset_rms_norm`` (scale only).
        normalized_shape: The trailing dimensions to normalise over: 768, or [3, 4].
        eps: Epsilon added to the variance or mean square; None means the kind's default in ``NORMS``.

    Raises:
        UsageError: The kind is unknown, the shape empty or not positive, or eps not positive.
    """
    if kind not in NORMS:
        raise UsageError(f"unknown norm {kind!r}:{did_you_mean(kind, NORMS)} known: {', '.join(NORMS)}")
    widths = list(arguments.shape("normalized_shape", normalized_shape))
    epsilon = arguments.epsilon(NORMS[kind] if eps is None else eps)
    if kind == "layer_norm":
        return nn.LayerNorm(widths, eps=epsilon)
    if kind == "rms_norm":
        return nn.RMSNorm(widths, eps=epsilon)
    return OffsetRMSNorm(widths, eps=epsilon)
