"""Which of the forms that a target leaves open are used. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ffn_export.errors import UsageError

ANY = "*"
# What a call of a kernel costs for each piece shows at few tokens, the more the narrower the hidden layer.
WIDE = 2048


@dataclass(frozen=True)
class Forms:
    """The open forms in use.

    Attributes:
        rules: Names of the open rules in use, and ``gemm-by-rows`` for products and their biases as one ``Gemm``,
            ``padded-widths`` for rows that are longer by a cache line where they lie a multiple of 4096 bytes apart.
        chunk: The fewest rows of a chunk where a feed-forward is computed in a loop over chunks; None for no loop.
        long_only: Whether the loop is for inputs of two chunks and more, and the plain nodes stand beside it in a
            branch of an ``If`` for others. ONNX Runtime then packs the weights for each, which takes more memory.
        pieces: Activations of feed-forwards in float32 whose hidden layer, of :data:`WIDE` units or more, is computed a
            quarter at a time, by their names in a report; :data:`ANY` for all, of any width and dtype; empty for none.

    Raises:
        UsageError: If a chunk holds no row, or there is none to be for long inputs only.
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
        """Return them without a rule."""
        return replace(self, rules=self.rules - {rule})

    def whole(self) -> Forms:
        """Return them without pieces."""
        return replace(self, pieces=frozenset())

    def in_chunks(self, chunk: int, *, long_only: bool = False) -> Forms:
        """Return them with a loop over chunks, and with pieces in it: few rows of few units are what stays in cache."""
        return replace(self, chunk=chunk, long_only=long_only, pieces=frozenset({ANY}))

    def in_pieces(self, activation: str | None, d_ff: int, *, in_float32: bool) -> bool:
        """Whether a feed-forward with this activation and so many hidden units is computed in pieces."""
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
        """Read what :meth:`to_dict` wrote."""
        return cls(frozenset(data["rules"]), data["chunk"], data["long_only"], frozenset(data.get("pieces", ())))
