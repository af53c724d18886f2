"""Choose how the rows of an activation are scaled, by the error of its products on samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion import sites
from ffn_export.fusion.constants import is_fixed
from ffn_export.fusion.region import through
from ffn_export.fusion.views import inputs_of, is_one_of
from ffn_export.quantization import safe_integers
from ffn_export.quantization.row_scales import ACTIVATIONS
from ffn_export.quantization.whole_input import AnyRange, FiniteRows, WholeInput

Held = TypeVar("Held", bound=AnyRange)

# Operators that a value may pass on its way from norms.
_FOLLOWING = frozenset({*sites.PRODUCTS, "Add", "Mul", *ACTIVATIONS})
# The lowest number of each row is read if that makes the error this many times smaller.
_WORTH_LOWEST = 1.1


def follows_norm(value: ir.Value) -> bool:
    """Whether norms write a value, or activations, biases, gates and products with weights compute it from theirs.

    Its rows are then of one size, whatever the size of the model's inputs. Those of attention are not: the more keys a
    row sees, the smaller its mean.
    """
    waiting, seen = [value], set[ir.Value]()
    while waiting:
        value = through(waiting.pop())
        node = value.producer()
        if node is None:
            return False
        if value in seen or (is_one_of(node, *sites.NORMS, *sites.SKIP_NORMS) and value is node.outputs[0]):
            continue
        seen.add(value)
        moving = [each for each in inputs_of(node) if not is_fixed(each)]
        if not moving or node.op_type not in _FOLLOWING or (node.op_type in sites.PRODUCTS and len(moving) > 1):
            return False
        waiting += moving
    return True


def choose(rows: Array, matrices: Sequence[Array], ranges: Sequence[Held]) -> tuple[Held, float]:
    """Return the fastest range that is nearly as accurate as the first, and the squared error of the products.

    The error has a part that the 8-bit weights add, so that factors which spread the weights too far are not taken.

    Args:
        rows: Rows of the input.
        matrices: The ``[d_in, d_out]`` matrices that are multiplied by it.
        ranges: How rows can be scaled, the fastest last.
    """
    errors = [sum(_squares((each.rounded(rows) - rows) @ matrix) for matrix in matrices) for each in ranges]
    best = max(index for index, error in enumerate(errors) if error <= _WORTH_LOWEST**2 * errors[0])
    weights = sum(_squares(rows @ (safe_integers.nearest(matrix) - matrix)) for matrix in matrices)
    return ranges[best], errors[best] + weights


def _squares(errors: Array) -> float:
    return float(np.square(errors, dtype=np.float64).sum())


def are_worth_time(rows: Array, matrices: Sequence[Array], held: AnyRange, shared: WholeInput | FiniteRows) -> bool:
    """Whether scales of rows are worth their time: a shared one adds a larger share of error than it saves of time."""
    (_, error), (_, of_one) = (choose(rows, matrices, [each]) for each in (held, shared))
    return of_one > (1 + shared.saves(matrices)) ** 2 * error
