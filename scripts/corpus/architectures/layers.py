"""PyTorch's own encoder and decoder layers, in all their settings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch

from corpus.entry import Architecture, Input

_SOURCE = Input(("batch", "seq", 48))
_TARGET = Input(("batch", "target", 48))


def _layer(
    kind: type[torch.nn.TransformerEncoderLayer] | type[torch.nn.TransformerDecoderLayer],
    norm_first: bool,
    activation: str,
) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        return kind(48, 4, 112, norm_first=norm_first, activation=activation, batch_first=True)

    return build


def _name(norm_first: bool, activation: str) -> str:
    return f"{'pre' if norm_first else 'post'}-norm-{activation}"


_SETTINGS = tuple(product((False, True), ("relu", "gelu")))

LAYERS = (
    *(
        Architecture(
            f"encoder-layer-{_name(*setting)}",
            ("torch layer",),
            _layer(torch.nn.TransformerEncoderLayer, *setting),
            {"src": _SOURCE},
        )
        for setting in _SETTINGS
    ),
    *(
        Architecture(
            f"decoder-layer-{_name(*setting)}",
            ("torch layer",),
            _layer(torch.nn.TransformerDecoderLayer, *setting),
            {"tgt": _TARGET, "memory": _SOURCE},
        )
        for setting in _SETTINGS
    ),
)
