"""Inputs with numbers that equal what a graph compares them with, as ordinary values.

Cases of the thresholds hold such numbers as well. But one rounding of the inputs moves a number off its limit, and so
the conditioning allows either side. No arithmetic comes before a comparison of inputs as they are, and nothing is
rounded there: which side a tie belongs to is then a part of the function. In these cases the bound has no conditioning.

Covers: comparisons of an input, or of numbers taken out of it or computed without rounding, with constants of ordinary
size and with each other; ``ArgMax`` and ``ArgMin`` of these. Not covered: other computed values, since implementations
round them differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.core.words import words
from ffn_export.fusion import constants
from ffn_export.fusion.views import is_one_of

_COMPARING = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_PICKING = ("ArgMax", "ArgMin")
# Operators whose results are numbers of their inputs, or computed from these without rounding.
_EXACT = words(
    "Abs Ceil Clip Concat Expand Flatten Floor Gather GatherElements GatherND Identity Max Min Neg ReduceMax ReduceMin "
    "Relu Reshape Round Sign Slice Split Squeeze Tile Transpose Unsqueeze Where"
)
# Operator -> places of the inputs with numbers; the first by default.
_PLACES: Mapping[str, slice] = {
    "Concat": slice(None),
    "Max": slice(None),
    "Min": slice(None),
    "Where": slice(1, 3),
}
_LARGEST = 4.0  # of normal values
_MOST = 64


def tied(model: ir.Model, specs: Sequence[TensorSpec]) -> dict[str, tuple[float, ...]]:
    """Return each floating-point input that is compared as it is, with constants of either sign.

    The graph is without functions and branches.
    """
    floating = {spec.name for spec in specs if spec.is_floating}
    taken = {value: frozenset({str(value.name)}) for value in model.graph.inputs if value.name in floating}
    found: dict[str, set[float]] = {}
    for node in model.graph:
        if node.domain != "":
            continue
        if node.op_type in _EXACT:
            names = _names(node.inputs[_PLACES.get(node.op_type, slice(1))], taken)
            if names:
                taken |= dict.fromkeys(node.outputs, names)
        elif is_one_of(node, *_COMPARING):
            names = _names(node.inputs, taken)
            limits = [number for value in node.inputs if value not in taken for number in _numbers(value)]
            for name in names if limits or all(value in taken for value in node.inputs) else ():
                found.setdefault(name, set()).update(limits)
        elif is_one_of(node, *_PICKING):
            found |= {name: found.get(name, set()) for name in _names(node.inputs, taken)}
    return {name: tuple(sorted({*limits, *(-limit for limit in limits)})) for name, limits in found.items()}


def with_ties(feeds: Mapping[str, Array], limits: Mapping[str, Sequence[float]], seed: int) -> dict[str, Array]:
    """Return inputs rounded to halves, many of which are equal, in which every third number is one of the limits."""
    rng = np.random.default_rng(seed)
    changed = dict(feeds)
    for name, numbers in limits.items():
        array = np.round(feeds[name].astype(np.float64) * 2) / 2
        places = rng.permutation(array.size)[: max(array.size // 3, 1)] if numbers and array.size else np.array([], int)
        array.flat[places] = np.resize(numbers, places.size)
        changed[name] = array.astype(feeds[name].dtype)
    return changed


def _names(read: Sequence[ir.Value | None], taken: Mapping[ir.Value, frozenset[str]]) -> frozenset[str]:
    """Return the inputs that numbers are taken out of; none if a value holds others, that are no constants."""
    values = [value for value in read if value is not None]
    if any(value not in taken and constants.evaluate(value) is None for value in values):
        return frozenset()
    return frozenset().union(*(taken.get(value, frozenset()) for value in values))


def _numbers(value: ir.Value | None) -> list[float]:
    array = constants.evaluate(value)
    if array is None or array.size > _MOST:
        return []
    numbers = array.astype(np.float64).reshape(-1)
    return [float(number) for number in numbers if abs(number) <= _LARGEST]
