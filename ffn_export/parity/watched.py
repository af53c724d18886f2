"""What a module computes with: the numbers that its operators are given, and which GELU they make.

Some of it changes no output, or less than its dtype shows, and is wrong in a graph nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves

from ffn_export.exporter.dispatch import OperatorMode
from ffn_export.exporter.drawing import Array
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch

GeluKind = Literal["erf", "tanh"]

_aten = torch.ops.aten
# What a GELU that is written out calls; ``x * sigmoid(2 * u)`` is the one with a tanh of ``u``.
_PIECES: Mapping[Any, GeluKind] = {
    _aten.erf: "erf",
    _aten.erfc: "erf",
    _aten.special_ndtr: "erf",
    _aten._transformer_encoder_layer_fwd: "erf",  # the fast path of nn.TransformerEncoderLayer
    _aten.tanh: "tanh",
    _aten.sigmoid: "tanh",
    _aten.silu: "tanh",
}


@dataclass
class Watched:
    """What was seen in one run.

    Attributes:
        numbers: Every number that an operator was given, tensors of one element included.
        gelus: The kinds of GELU that its operators are, or could be pieces of.
        calls_gelu: Whether one of them is a GELU.
    """

    numbers: set[float] = field(default_factory=set)
    gelus: set[GeluKind] = field(default_factory=set)
    calls_gelu: bool = False


class _Watch(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    def __init__(self) -> None:
        super().__init__()
        self.seen = Watched()

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Note what it is, and the numbers."""
        packet = getattr(func, "overloadpacket", func)
        if packet is _aten.gelu:
            self.seen.calls_gelu = True
            self.seen.gelus.add("tanh" if "tanh" in (*args[1:], *kwargs.values()) else "erf")
        elif packet in _PIECES:
            self.seen.gelus.add(_PIECES[packet])
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, float):
                self.seen.numbers.add(leaf)
            elif isinstance(leaf, torch.Tensor) and leaf.numel() == 1 and leaf.is_floating_point():
                self.seen.numbers.add(float(leaf))
        return func(*args, **kwargs)


def watch(source: Source, feeds: Mapping[str, Array]) -> Watched:
    """Run a module once on inputs that it takes."""
    args, kwargs = source.call.arguments(to_torch(feeds))
    mode = _Watch()
    with torch.no_grad():
        mode.watch(lambda: source.module(*args, **kwargs))
    return mode.seen
