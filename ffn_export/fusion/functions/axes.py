"""Follow axes through nodes that move numbers: Reshape, Transpose, Squeeze, Unsqueeze, and parts that are taken.

Each axis of a value is a tuple of factors, in the order in which its numbers lie: ``[seq, batch * heads, size]`` has
the axes ``(seq,), (batch, heads), (size,)``. Nodes regroup and permute factors, so values that hold the same numbers in
another order are told apart without a list of spellings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import input_at, int_of, ints_of, is_standard, rank


@dataclass(frozen=True, eq=False)
class Factor:
    """One of the sizes that an axis is the product of."""

    size: int | ir.SymbolicDim


Axes = tuple[tuple[Factor, ...], ...]


@dataclass(frozen=True)
class Moved:
    """The axes behind a node; and a factor of which it took one part, with the number of the part."""

    axes: Axes
    taken: tuple[Factor, int] | None = None


def behind(node: ir.Node, output: ir.Value, axes: Axes) -> Moved | None:
    """Return the axes of an output of a node whose first input has these; None if it does anything but move them."""
    if is_standard(node, "Identity"):
        return Moved(axes)
    if is_standard(node, "Transpose"):
        order = ints_of(node, "perm") or tuple(reversed(range(len(axes))))
        return Moved(tuple(axes[place] for place in order)) if sorted(order) == list(range(len(axes))) else None
    if is_standard(node, "Reshape", "Flatten", "Unsqueeze", "Squeeze"):
        regrouped = None if output.shape is None else _regrouped([each for axis in axes for each in axis], output.shape)
        return None if regrouped is None else Moved(regrouped)
    if is_standard(node, "Gather", "Split"):
        return _part(node, output, axes)
    return None


def _regrouped(factors: Sequence[Factor], shape: ir.Shape) -> Axes | None:
    """Group factors to the axes of a shape. One axis may have a size that is not known: it has what others leave."""
    left = list(factors)
    first, sizes = _from_end(left, list(shape), 0)
    last, sizes = _from_end(left, sizes, -1)
    if len(sizes) > 1 or (left and not sizes):
        return None
    return (*first, *([tuple(left)] if sizes else []), *reversed(last))


def _from_end(
    left: list[Factor], sizes: list[int | ir.SymbolicDim], end: int
) -> tuple[list[tuple[Factor, ...]], list[int | ir.SymbolicDim]]:
    """Take axes of known size off one end, and their factors off ``left``, in place."""
    found = []
    while sizes:
        count = _count(left if end == 0 else left[::-1], sizes[end])
        if count is None:
            break
        sizes.pop(end)
        found.append(tuple(left[:count] if end == 0 else left[len(left) - count :]))
        del left[slice(count) if end == 0 else slice(len(left) - count, None)]
    return found, sizes


def _count(factors: Sequence[Factor], size: int | ir.SymbolicDim) -> int | None:
    """Return how many of the first factors have this size together; None if that is not known."""
    if factors and are_same_axes([factors[0].size], [size]):
        return 1
    product = 1
    for count, factor in enumerate(factors if isinstance(size, int) else ()):
        if product == size:
            return count
        if not isinstance(factor.size, int):
            return None
        product *= factor.size
    return len(factors) if product == size else None


def _part(node: ir.Node, output: ir.Value, axes: Axes) -> Moved | None:
    """Return the axes behind a Gather of one part, or a Split in parts of one, of an axis with one factor."""
    axis = int_of(node, "axis", 0)
    if axis is None or not -len(axes) <= axis < len(axes):
        return None
    place = axis % len(axes)
    factor, *others = axes[place] or (None,)
    size = None if factor is None or others else factor.size
    if factor is None or not isinstance(size, int):
        return None
    if is_standard(node, "Split"):
        index = output.index()
        rest: tuple[tuple[Factor, ...], ...] = ((),)
        if index is None or len(node.outputs) != size or output.shape is None or output.shape[place] != 1:
            return None
    else:
        indices = input_at(node, 1)
        given = constants.integers(indices)
        if given is None or len(given) != 1 or rank(indices) not in (0, 1) or not -size <= given[0] < size:
            return None
        index, rest = given[0] % size, ((),) * (rank(indices) or 0)
    return Moved((*axes[:place], *rest, *axes[place + 1 :]), (factor, index))
