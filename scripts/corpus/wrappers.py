"""Modules with plain tensors in and one tensor out, around models of ``transformers``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch


class _Wrapper(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.fixed = {**fixed, "return_dict": False}

    def first(self, **tensors: torch.Tensor) -> torch.Tensor:
        """Return the model's first output: the hidden states, or the logits."""
        result = self.model(**tensors, **self.fixed)[0]
        assert isinstance(result, torch.Tensor)
        return result


class Ids(_Wrapper):
    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.first(input_ids=input_ids)


class IdsMask(_Wrapper):
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.first(input_ids=input_ids, attention_mask=attention_mask)


class IdsBoxes(_Wrapper):
    def forward(self, input_ids: torch.Tensor, bbox: torch.Tensor) -> torch.Tensor:
        return self.first(input_ids=input_ids, bbox=bbox)


class EncoderDecoder(_Wrapper):
    def forward(self, input_ids: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
        return self.first(input_ids=input_ids, decoder_input_ids=decoder_input_ids)


class FeaturesDecoder(_Wrapper):
    def forward(self, input_features: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
        return self.first(input_features=input_features, decoder_input_ids=decoder_input_ids)


class Pixels(_Wrapper):
    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return self.first(pixel_values=pixel_values)


class Waves(_Wrapper):
    def forward(self, input_values: torch.Tensor) -> torch.Tensor:
        return self.first(input_values=input_values)


@dataclass(frozen=True)
class FromConfig:
    """Builds a model of ``transformers`` from the values of its configuration.

    Attributes:
        wrapper: What gives it plain tensors.
        name: Of the class.
        fixed: Further arguments of each call.
        config: Values of the configuration.
    """

    wrapper: type[_Wrapper]
    name: str
    fixed: Mapping[str, Any]
    config: Mapping[str, Any]

    def __call__(self) -> torch.nn.Module:
        """Build it."""
        import transformers

        made_from: Any = getattr(transformers, self.name)
        configuration = made_from.config_class(**self.config)
        # Without ONNX translation otherwise: fused attention, and a mixture's grouped product.
        model = made_from._from_config(configuration, attn_implementation="eager", experts_implementation="batched_mm")
        return self.wrapper(model, **self.fixed)


def from_config(
    wrapper: type[_Wrapper], name: str, fixed: Mapping[str, Any] | None = None, **config: Any
) -> FromConfig:
    """Return what builds a model; see :class:`FromConfig`."""
    return FromConfig(wrapper, name, fixed or {}, config)
