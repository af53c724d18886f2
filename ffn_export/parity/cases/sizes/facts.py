"""What is known of a tensor: where its numbers come from, its shape, and its numbers where sizes make them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ffn_export.parity.cases.sizes.expressions import Expression

Items = np.ndarray[Any, np.dtype[np.object_]]

# Tensors of more elements are known by one of them.
MOST_ITEMS = 64


class Kind(IntEnum):
    """Where the numbers of a tensor come from; the largest of its inputs' decides."""

    CONSTANT = 0  # the graph itself
    SPREAD = 1  # numbers of the graph, as many as sizes say
    SIZE = 2  # sizes
    DATA = 3  # the inputs


@dataclass(frozen=True)
class Fact:
    """One tensor.

    Attributes:
        kind: Where its numbers come from.
        shape: Size of each axis; None where the rank is unknown.
        items: All of its elements, where they are few and known.
        last: Its last element, or one that stands for all.
        is_float: Whether a division of it is one of floating-point numbers.
        is_same: Whether all elements are equal.
    """

    kind: Kind
    shape: tuple[Expression, ...] | None = None
    items: Items | None = None
    last: Expression | None = None
    is_float: bool = False
    is_same: bool = False

    @property
    def sample(self) -> Expression | None:
        """Its last element, where that is known."""
        if self.items is not None and self.items.size:
            found: Expression = self.items.reshape(-1)[-1]
            return found
        return self.last

    @property
    def numbers(self) -> list[int] | None:
        """All elements, where they are whole numbers that depend on no size."""
        if self.items is None:
            return None
        found = [item.number for item in self.items.reshape(-1)]
        return [int(number) for number in found if number is not None] if None not in found else None

    @property
    def expressions(self) -> list[Expression]:
        """All elements that are known."""
        if self.items is not None:
            return list(dict.fromkeys(self.items.reshape(-1)))
        return [] if self.last is None else [self.last]


DATA = Fact(Kind.DATA)
