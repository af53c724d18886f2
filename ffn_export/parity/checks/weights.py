"""Compare the constants of a graph with the parameters that they come from.

An error of 0.1 % in one weight stays below any fair bound on the outputs, so constants are compared directly. A
constant is traced by its numbers, wherever it is in the file (:mod:`constants.collect`). It may be

1. one parameter with its axes in any order, times a number, plus 1, or with a vector in its rows or columns
   (:mod:`constants.layouts`);
2. several parameters side by side, a part of one, a sum or a product (:mod:`constants.combined`);
3. rows of parameters in any order (:mod:`constants.rows`);
4. an integer or boolean buffer (:mod:`constants.tables`);
5. a parameter in few bits (:mod:`constants.quantized`).

Padding added by fusion is compared too. A constant that is only near a parameter is not traced to it if the graph
holds that parameter exactly: the ones for a required scale input are near the weight of every norm. Constants that
match no parameter are reported, and so are parameters that no constant holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
import torch

from ffn_export.core.drawing import is_floating
from ffn_export.core.types import Array
from ffn_export.fusion.forms.padded_widths.units import Padding, padded, paddings_of, plain
from ffn_export.inspection.facts import type_words
from ffn_export.parity.checks.constants.collect import Constant, constants, is_setting
from ffn_export.parity.checks.constants.combined import combined
from ffn_export.parity.checks.constants.layouts import Layouts
from ffn_export.parity.checks.constants.quantized import Quantized, quantized, rounded
from ffn_export.parity.checks.constants.rows import RowIndex
from ffn_export.parity.checks.constants.smoothed_pairs import pairs, without_factors
from ffn_export.parity.checks.constants.tables import Tables, as_mask
from ffn_export.parity.checks.constants.traced import Traced, epsilon, magnitude, off
from ffn_export.parity.judging.measures import UntracedConstant, WeightMetrics
from ffn_export.parity.reference import derived_parameters
from ffn_export.parity.reference.module_trace import Watched
from ffn_export.runtimes.torch_eager import to_numpy

# Roundings of the norm of a weight's row, which an exporter may sum in another order.
_SUMS = 64
# Roundings of a few operators that are folded one by one.
_FOLDED = 4
# Roundings of the largest sum that a sum over many terms may be off: processors add them in other orders.
_ADDED = 16
# Operators that copy numbers, and those that round once whoever computes them.
_COPIES = re.compile(
    "_to_copy|cat|stack|clone|copy|contiguous|expand|permute|repeat|select|slice|split|t|transpose|unsqueeze|view"
)
_ROUND_ONCE = re.compile("add|sub|rsub|mul|div|neg|abs|sqrt")
# Operators whose terms may cancel.
_ADD_MANY = re.compile(r"\w*mm|\w*mv|matmul|\w*dot|linear|einsum|\w*conv\w*|cumsum|sum|mean|var\w*|std\w*|\w+_norm")
_OPERATORS = re.compile(r"(\w+)\(")
# Bytes of the smallest dtype that these roundings apply to.
_SINGLE = 4
# Largest relative distance of a weight in few bits from its parameter.
_FEW_BITS = 0.7
_NAMES = re.compile(r"[^+(),\s]+")


@dataclass(frozen=True)
class Weights:
    """The comparison of a graph's constants with the parameters.

    Attributes:
        traced: Constants that were traced to parameters.
        untraced: Constants that match no parameter.
        unheld: Parameters that the module reads and no constant holds.
    """

    traced: tuple[WeightMetrics, ...] = ()
    untraced: tuple[UntracedConstant, ...] = ()
    unheld: tuple[UntracedConstant, ...] = ()


def compare_weights(model: ir.Model, module: torch.nn.Module, watched: Watched | None = None) -> Weights:
    """Compare every constant that can be traced to parameters or buffers, and list the others.

    Args:
        model: The graph under test.
        module: Module that the graph comes from.
        watched: Trace of ``forward``, with the parameters that it reads and the tensors that it computes only from
            parameters. None means that all parameters are read.
    """
    named = _arrays((*module.named_parameters(), *module.named_buffers()))
    tracer = _Tracer(module, named, Watched() if watched is None else watched)
    found = [each for each in constants(model) if each.tensor.size > 1 and each.tensor.dtype != ir.DataType.STRING]
    few_bits = dict(quantized(model, {each.value: each.array for each in found if each.value is not None}))
    scales = {value for each in few_bits.values() for value in each.scales}
    stored = [_Stored.read(each, few_bits.get(each.value) if each.value else None) for each in found]
    stored = tracer.without_smoothing(stored, pairs(model, few_bits))
    traced = tracer.traced([each for each in stored if each.constant.value not in scales])
    metrics = tuple(_metrics(each, traced[each]) for each in stored if each in traced)
    untraced = [
        each
        for each in stored
        if each not in traced and each.constant.value not in scales and not is_setting(each.array)
    ]
    held = {name for each in metrics for name in _NAMES.findall(each.parameter)}
    held |= derived_parameters.ingredients(module, held)
    is_read = named.keys() if watched is None else watched.read
    return Weights(
        metrics,
        tuple(
            UntracedConstant(e.constant.name, type_words(e.constant.tensor), tracer.resembles(e.array))
            for e in untraced
        ),
        tuple(
            UntracedConstant(name, f"{array.dtype.name}[{','.join(map(str, array.shape))}]")
            for name, array in named.items()
            if name not in held and name in is_read and not is_setting(array)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Stored:
    """A constant as it is compared: without padding from fusion, and dequantised."""

    constant: Constant
    array: Array
    paddings: Sequence[Padding] = ()
    few_bits: Quantized | None = None

    @classmethod
    def read(cls, constant: Constant, few_bits: Quantized | None) -> _Stored:
        if few_bits is not None:
            return cls(constant, few_bits.array, (), few_bits)
        paddings = () if constant.value is None else paddings_of(constant.value)
        return cls(constant, plain(constant.array, paddings), paddings)

    @property
    def whole(self) -> Array:
        return self.array if self.few_bits is not None else self.constant.array


class _Tracer:
    """Traces constants to the parameters of a module."""

    def __init__(self, module: torch.nn.Module, named: Mapping[str, Array], watched: Watched) -> None:
        computed = _arrays((*derived_parameters.computed(module), *derived_parameters.folded(module)))
        as_it_runs = _arrays(watched.weights.items())
        self._layouts = Layouts()
        self._matrices = [array for array in named.values() if array.ndim == 2 and is_floating(array)]
        for name, array in {**named, **computed, **as_it_runs}.items():
            if is_floating(array):
                how = None if name in computed else name
                rounding = 0.0 if name in named else _rounding(array, how, by_rounded=name in watched.with_rounded)
                absolute = _cancelling(array, name) if rounding else 0.0
                self._layouts.add(name, array, rounding, absolute)
        self._tables = Tables({**named, **computed, **as_it_runs})
        self._rows = RowIndex(self._layouts)
        # A tensor computed from a parameter may be near it, such as a weight whose norm is already near the wanted one.
        self._made_into_others = derived_parameters.ingredients(module)
        self._made = {name for name in computed if derived_parameters.ingredients(module, {name})}

    def traced(self, stored: Iterable[_Stored]) -> dict[_Stored, Traced]:
        """Return constant -> expected values, for constants that can be traced.

        Exact matches come first. Other constants are then not traced to the same parameters by nearness alone.
        """
        stored = list(stored)
        found: dict[_Stored, Traced] = {}
        for each in stored:
            exact = self._layouts.equal(each.array) if is_floating(each.array) else None
            if exact is not None:
                found[each] = replace(exact, is_equal=True)
        there = {traced.parameter for traced in found.values()}
        for each in (each for each in stored if each not in found):
            traced = self._computed(each, there) if is_floating(each.array) else None
            if traced is None and (table := self._tables.traced(each.array, there)) is not None:
                traced = Traced(table[1].parameter, table[1].how, _unmasked(each.array, table[1].expected))
            if traced is not None:
                found[each] = traced
        return found

    def without_smoothing(self, stored: Sequence[_Stored], pairs: Iterable[tuple[ir.Value, ir.Value]]) -> list[_Stored]:
        """Return the constants with factors taken out of pairs of matrices that are both right without them only."""
        found = {each.constant.value: each for each in stored}
        for before, after in pairs:
            one, other = found[before], found[after]
            if self._is_right(one) and self._is_right(other):
                continue
            assert one.few_bits is not None
            assert other.few_bits is not None
            matrices = without_factors(one.few_bits, self._matrices, other.few_bits)
            both = zip((one, other), matrices or (), strict=False)
            tried = [replace(each, array=matrix.array, few_bits=matrix) for each, matrix in both]
            # Wrong scales of the first would look like factors, which then are wrong for rows of the second.
            by_row = [replace(tried[1], few_bits=replace(matrices[1], axis=0))] if matrices else []
            if tried and all(map(self._is_right, (*tried, *by_row))):
                found[before], found[after] = tried
        return [found[each.constant.value] if each.few_bits is not None else each for each in stored]

    def _near(self, stored: _Stored, without: set[str]) -> Traced | None:
        return self._layouts.nearest(stored.array, without | self._made_into_others, _FEW_BITS) or combined(
            stored.array, self._layouts, without
        )

    def _is_right(self, stored: _Stored) -> bool:
        """Whether every block of a matrix in few bits is near its weights."""
        near = self._near(stored, set())
        if near is None or stored.few_bits is None:
            return False
        return np.array_equal(rounded(stored.few_bits, near).expected, stored.array)

    def _computed(self, stored: _Stored, there: set[str]) -> Traced | None:
        array, without = stored.array, there | self._made_into_others
        if stored.few_bits is not None:
            found = self._near(stored, there)
            return None if found is None else rounded(stored.few_bits, found)
        if (whole := self._layouts.computed(array, self._made)) is not None:
            return whole
        if is_setting(array):  # few distinct numbers may be near those of any parameter
            return self._layouts.nearest(array, without)
        return self._layouts.one(array, without) or combined(array, self._layouts, there) or self._rows.traced(array)

    def resembles(self, array: Array) -> str:
        """Return the parameter that an untraced constant correlates with, or an empty string."""
        return self._layouts.resembles(array) if is_floating(array) else ""


def _rounding(array: Array, how: str | None, *, by_rounded: bool = False) -> float:
    """Return the allowed relative error of a tensor that a module computes from parameters.

    An exporter folds its operators one by one. In half precision, one rounding is as large as a fault, so it is allowed
    only where two foldings may round otherwise.

    Args:
        array: The tensor.
        how: The operators that compute it; None for those of a parametrisation, which may sum.
        by_rounded: Whether one of them is given a number that the dtype rounds.
    """
    if array.dtype.itemsize >= _SINGLE:
        return (_SUMS if how is None else _FOLDED) * epsilon(array)
    operators = [] if how is None else [name for name in _OPERATORS.findall(how) if not _COPIES.fullmatch(name)]
    rounds_once = len(operators) == 1 and not by_rounded and _ROUND_ONCE.fullmatch(operators[0]) is not None
    is_exact = how is not None and (not operators or rounds_once)
    return 0.0 if is_exact else _FOLDED * epsilon(array)


def _cancelling(array: Array, how: str) -> float:
    """Return the allowed absolute error of a tensor that the operators compute, where terms cancel."""
    if array.dtype.itemsize < _SINGLE:
        roundings = 1  # a difference of two numbers keeps the rounding of the larger
    else:
        roundings = _ADDED if any(map(_ADD_MANY.fullmatch, _OPERATORS.findall(how))) else 0
    return roundings * epsilon(array) * magnitude(array.astype(np.float64)) if roundings else 0.0


def _unmasked(stored: Array, expected: Array) -> Array:
    """Return the expected table in the numbers of a constant, since a mask may use any two numbers."""
    if as_mask(stored) is None or expected.dtype.kind != "b" or stored.dtype.kind == "b":
        return expected
    numbers: Array = np.where(expected.reshape(stored.shape), stored.max(), stored.min())
    return numbers


def _arrays(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, Array]:
    return {name: to_numpy(tensor) for name, tensor in named if tensor.numel() > 1 and not tensor.is_complex()}


def _metrics(stored: _Stored, traced: Traced) -> WeightMetrics:
    if traced.is_equal and not stored.paddings:
        return WeightMetrics(stored.constant.name, traced.parameter, 0, 0.0, (0,) * stored.array.ndim, traced.how)
    if stored.paddings:
        traced = replace(traced, expected=padded(traced.expected.reshape(stored.array.shape), stored.paddings))
    differing, largest, relative, where = off(stored.whole, traced)
    index = np.unravel_index(where, stored.whole.shape)
    return WeightMetrics(
        stored.constant.name, traced.parameter, differing, largest, tuple(int(i) for i in index), traced.how, relative
    )
