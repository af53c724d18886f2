"""Compare the weights of a part with those of the reference's part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import float_info
from ffn_export.core.types import Array
from ffn_export.inspection.regions import weights
from ffn_export.parity.bisection.graph import Region

# Within this relative difference a weight was meant to equal the reference's. Farther ones may be new constants, as
# folding one constant into another creates.
_MEANT_WITHIN = 0.1
# Roundings that are no difference, since folding rounds once or twice more.
_ROUNDINGS = 8


@dataclass(frozen=True)
class Changed:
    """A weight that differs from the reference's.

    Attributes:
        name: Name in the suspect.
        counterpart: Name of the reference's weight.
        differing: Number of elements that differ.
        size: Number of elements.
        relative: Largest difference over the largest magnitude of the reference's weight.
        rounding: Relative difference that a few more roundings explain.
        transposed: Whether the weight is the transpose of the reference's matrix.
    """

    name: str
    counterpart: str
    differing: int
    size: int
    relative: float
    rounding: float = 0.0
    transposed: bool = False

    @property
    def words(self) -> str:
        """The difference in one line."""
        of = "the reference's" if self.name == self.counterpart else f"{self.counterpart!r} of the reference"
        if self.transposed:
            return f"initializer {self.name!r} is {of} transposed"
        return (
            f"initializer {self.name!r} is not {of}: {self.differing} of {self.size} elements differ, "
            f"by up to {self.relative:.2g} of its largest"
        )


def changed(region: Region, instead_of: Region) -> Iterator[Changed]:
    """Yield the weights of a part that are not among the reference's, each with the nearest one of its size."""
    left = dict.fromkeys(weights(instead_of.nodes))
    unequal = []
    for weight in weights(region.nodes):
        twin = next((other for other in left if _equal(weight, other)), None)
        if twin is None:
            unequal.append(weight)
        else:
            del left[twin]
    for weight in unequal:
        near = [found for other in left if (found := _compared(weight, other)) is not None]
        if near:
            yield min(near, key=lambda found: (found.name != found.counterpart, not found.transposed, found.relative))


def meant_to_be_equal(found: Changed) -> bool:
    """Whether a weight was meant to equal the reference's, and differs by more than rounding.

    A weight of which fewer than half of the elements differ counts as meant to be equal, however large the difference.
    """
    near = found.relative <= _MEANT_WITHIN or 2 * found.differing < found.size
    return near and found.relative > found.rounding


def _equal(one: ir.Value, other: ir.Value) -> bool:
    a, b = one.const_value, other.const_value
    if a is None or b is None or a is b:
        return a is b and a is not None
    if a.dtype != b.dtype or a.size != b.size:
        return False
    mine, theirs = a.numpy().squeeze(), b.numpy().squeeze()
    return np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f") if mine.shape == theirs.shape else False


def _compared(one: ir.Value, other: ir.Value) -> Changed | None:
    if one.const_value is None or other.const_value is None or one.const_value.size != other.const_value.size:
        return None
    dtype = one.const_value.dtype
    mine, theirs = _numbers(one.const_value), _numbers(other.const_value)
    if mine.shape != theirs.shape:
        if mine.shape != theirs.shape[::-1]:
            return None
        theirs = theirs.T
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.nan_to_num(np.where(mine == theirs, 0.0, np.abs(mine - theirs)), nan=np.inf)
    largest = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)) or 1.0
    return Changed(
        str(one.name),
        str(other.name),
        int(np.count_nonzero(apart)),
        mine.size,
        float(apart.max(initial=0.0)) / largest,
        _ROUNDINGS * float(float_info(dtype.numpy()).eps) if dtype.is_floating_point() else 0.0,
        transposed=mine.ndim == 2 and bool(np.array_equal(mine, theirs.T)),
    )


def _numbers(tensor: ir.TensorProtocol) -> Array:
    return tensor.numpy().squeeze().astype(np.float64)
