"""Facts about a tensor: the origin of its numbers, its shape, and its numbers if they are computed from sizes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ffn_export.parity.cases.sizes.expressions import Expression

Items = np.ndarray[Any, np.dtype[np.object_]]

# Of a larger tensor only one element is recorded.
MOST_ITEMS = 64


class Kind(IntEnum):
    """Origin of a tensor's numbers. The largest kind among a node's inputs decides."""

    CONSTANT = 0  # the graph
    SPREAD = 1  # the graph, but sizes decide how many
    SIZE = 2  # sizes
    DATA = 3  # the inputs


@dataclass(frozen=True)
class Fact:
    """Facts about one tensor.

    Attributes:
        kind: Origin of the numbers.
        shape: Size of each axis; None if the rank is unknown.
        items: All elements, if they are few and known.
        last: The last element, or one that represents all.
        is_float: Whether the elements are floating-point numbers, which ``Div`` does not truncate.
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
        """The last element, or None if unknown."""
        if self.items is not None and self.items.size:
            found: Expression = self.items.reshape(-1)[-1]
            return found
        return self.last

    @property
    def numbers(self) -> list[int] | None:
        """All elements as integers, or None if one depends on sizes or is unknown."""
        if self.items is None:
            return None
        found = [item.number for item in self.items.reshape(-1)]
        return [int(number) for number in found if number is not None] if None not in found else None

    @property
    def expressions(self) -> list[Expression]:
        """All known elements."""
        if self.items is not None:
            return list(dict.fromkeys(self.items.reshape(-1)))
        return [] if self.last is None else [self.last]


DATA = Fact(Kind.DATA)
