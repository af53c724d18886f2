"""The open forms in use. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ffn_export.errors import UsageError

ANY = "*"
# Fewest units of a hidden layer that is split. Each part costs further kernel calls, which show at few tokens, and more
# so in a narrow hidden layer.
WIDE = 2048


@dataclass(frozen=True)
class Forms:
    """The open forms in use.

    Attributes:
        rules: Names of the open rules in use. ``gemm-by-rows`` stands for products and their biases as one ``Gemm``,
            ``padded-widths`` for rows that are longer by a cache line where they lie a multiple of 4096 bytes apart.
        chunk: Fewest rows of a chunk, for feed-forwards in a loop over row chunks; None for no loop.
        long_only: Whether only inputs of two chunks or more run the loop. Shorter ones run the plain nodes in a branch
            of an ``If``. ONNX Runtime packs the weights for both, which takes more memory.
        pieces: Activations of the feed-forwards with a split hidden layer, by their names in a report. A hidden layer
            in float32 of :data:`WIDE` units or more is computed a quarter at a time. :data:`ANY` splits all, of any
            width and dtype; empty splits none.

    Raises:
        UsageError: If a chunk has no rows, or ``long_only`` is set without a chunk.

    Example:
        >>> forms = fx.Forms().in_chunks(384)
        >>> fused, report = fx.fuse(fx.export("d2l-ffn"), forms=forms)
        >>> forms.chunk
        384
    """

    rules: frozenset[str] = frozenset()
    chunk: int | None = None
    long_only: bool = False
    pieces: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.chunk is not None and self.chunk < 1:
            raise UsageError(f"a chunk of {self.chunk} tokens is none: take 1 or more")
        if self.long_only and self.chunk is None:
            raise UsageError("for long inputs only there is a chunk: name its tokens")

    def without(self, rule: str) -> Forms:
        """Return the forms without a rule."""
        return replace(self, rules=self.rules - {rule})

    def whole(self) -> Forms:
        """Return the forms without split hidden layers."""
        return replace(self, pieces=frozenset())

    def in_chunks(self, chunk: int, *, long_only: bool = False) -> Forms:
        """Return the forms with row chunks and split hidden layers: few rows of few units stay in cache."""
        return replace(self, chunk=chunk, long_only=long_only, pieces=frozenset({ANY}))

    def in_pieces(self, activation: str | None, d_ff: int, *, in_float32: bool) -> bool:
        """Whether the hidden layer of a feed-forward with this activation and width is split."""
        is_measured = activation in self.pieces and d_ff >= WIDE and in_float32
        return ANY in self.pieces or is_measured

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "rules": sorted(self.rules),
            "chunk": self.chunk,
            "long_only": self.long_only,
            "pieces": sorted(self.pieces),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Forms:
        """Read the data of :meth:`to_dict`."""
        return cls(frozenset(data["rules"]), data["chunk"], data["long_only"], frozenset(data.get("pieces", ())))
