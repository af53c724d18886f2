"""Quantise as many products as a budget allows, those first that save most time for the error that they add."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from ffn_export.calibration.calibrated import known
from ffn_export.calibration.metrics import Measured, Metric, judge
from ffn_export.calibration.rows_on_disk import RowsOnDisk
from ffn_export.calibration.sensitivity import sensitivities
from ffn_export.calibration.statistics import Whole, batches, real_rows
from ffn_export.core.drawing import is_floating
from ffn_export.core.fills import least_fill
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array, Progress, silent
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.parity.judging.tolerances import budget_of
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import groups_of, quantize, quantize_some
from ffn_export.quantization.result import QuantizationReport
from ffn_export.runtimes.in_place import load_in_place

Result = TypeVar("Result")

_AT_ONCE = 2**18  # numbers
_ROUNDING = 1e-2  # error of rows that are computed beside others, in half precision too


@dataclass(frozen=True)
class Budget:
    """What a quantised model may cost on the samples.

    Attributes:
        relative_l2: Largest relative L2 error of an output.
        metric: A metric of the user, which is judged in place of the error; None without one.
    """

    relative_l2: float
    metric: Metric | None = None


@dataclass(frozen=True)
class Fitted:
    """A quantised model and its figures on the samples.

    Attributes:
        model: The model.
        report: Result for each matrix, with the sensitivities if they were measured.
        measured: The metric's figure; None without a metric.
    """

    model: ir.Model
    report: QuantizationReport
    measured: Measured | None = None


def fit(
    model: ir.Model,
    options: QuantizationOptions,
    samples: Mapping[str, Array] | None,
    budget: Budget,
    threads: int = 1,
    *,
    drawn: Mapping[str, Array] | None = None,
    always_measure: bool = False,
    progress: Progress = silent,
) -> Fitted:
    """Quantise all products; if 8-bit integers are over the budget on the samples, leave some products in float32.

    Args:
        model: The model; it is not modified.
        options: Quantisation options.
        samples: Input name -> array: real inputs; without them, all products are quantised and nothing is judged.
        budget: What the result may cost.
        threads: Intra-op threads.
        drawn: Drawn inputs that activations are smoothed by, too.
        always_measure: Whether to measure sensitivities even if all products fit.
        progress: Called with a line for each step.

    Raises:
        UsageError: If no product can be quantised, or the model refuses the samples or gives no numbers for them.
    """
    if samples is None:
        return Fitted(*quantize_some(model, options, known(model, options, None, threads, drawn)))
    if not groups_of(model, options):  # raises and tells why, where a runtime may lack a kernel for the samples
        return Fitted(*quantize_some(model, options, known(model, options, samples, threads)))
    given = Whole(samples) if are_one_input(model, samples, threads) else samples
    before = _original_outputs(model, given, threads)
    seen = known(model, options, given, threads, drawn)

    def judged(made: tuple[ir.Model, QuantizationReport]) -> tuple[Fitted, bool]:
        after = _outputs(made[0], given, threads, packed=not options.int8)
        error = relative_error(before, after)
        measured = None if budget.metric is None else judge(budget.metric, before, after)
        fits = error <= budget.relative_l2 if measured is None else measured.passed
        return Fitted(made[0], replace(made[1], error=error), measured), fits

    progress("quantizing all products")
    best, fits = judged(quantize_some(model, options, seen))
    if not options.int8 or (fits and not always_measure):
        return best
    ranked = sensitivities(
        model, options, seen, lambda each: relative_error(before, _outputs(each, given, threads)), threads, progress
    )
    chosen = len(ranked)
    if not fits:
        # All of them do not fit. One product at least is tried, and judged over budget if it is.
        def fits_with(count: int) -> Fitted | None:
            progress(f"judging the best {count} of {len(ranked)} inputs in 8 bits")
            products = [name for each in ranked[:count] for name in each.products]
            tried, fits = judged(quantize(model, options, seen, products))
            return tried if fits else None

        chosen, found = longest_beginning(len(ranked), fits_with)
        best = best if found is None else found
    marked = tuple(replace(each, chosen=index < chosen) for index, each in enumerate(ranked))
    return replace(best, report=replace(best.report, sensitivities=marked))


def longest_beginning(count: int, attempt: Callable[[int], Result | None]) -> tuple[int, Result | None]:
    """Return the largest number below ``count`` that fits, by halving, and its result: 0 and None if none does.

    ``count`` itself does not fit. ``attempt`` returns the result of a number, or None if it does not fit.
    """
    low, high, best = 0, count, None
    while high - low > 1:
        middle = (low + high) // 2
        result = attempt(middle)
        if result is None:
            high = middle
        else:
            low, best = middle, result
    return low, best


def are_one_input(model: ir.Model, samples: Mapping[str, Array], threads: int = 1) -> bool:
    """Whether rows of the samples depend on each other, so that a part of them is another input of the model.

    Such are the tokens of one text without an axis of texts: a mean over them, attention or a recurrence. The outputs
    then differ if a part that :func:`batches` cuts is cut again.
    """
    parts = batches(samples, model)
    first, second = next(parts, None), next(parts, None)
    cut = [name for name, array in (first or {}).items() if array.shape[:1] != samples[name].shape[:1]]
    firsts = {str(value.name): value.shape[0] for value in model.graph.inputs if value.shape}
    if first is None or second is None or any(isinstance(firsts.get(name), int) for name in cut):
        return False
    half = first[cut[0]].shape[0] // 2
    halves = [first | {name: first[name][place] for name in cut} for place in (slice(half), slice(half, None))]
    try:
        return relative_error(*(_of_parts(model, each, threads) for each in ([first], halves))) > _ROUNDING
    except Exception as error:  # noqa: BLE001 - a model may take no fewer rows
        expose_own(error)
        return False


def relative_error(before: Mapping[str, Array], after: Mapping[str, Array]) -> float:
    """Return the largest error of an output: of floating-point numbers, the relative L2 error of those that are finite.

    It is infinite if an output is not NaN or infinite where the original is, is not zero where all of that is, or has
    another shape, such as the rows above a threshold. Of integers, it is a tenth of the share that differs: a
    verification allows ten times the budget of them.
    """
    return max((_error(array, after[name]) for name, array in before.items()), default=0.0)


def _error(before: Array, after: Array) -> float:
    if before.shape != after.shape:
        return math.inf
    if not is_floating(before):
        return budget_of(int((before != after).sum()), before.size)
    return _error_of_floats(before, after)


def _error_of_floats(before: Array, after: Array) -> float:
    """Return the error of an output, some numbers at a time: all of them in float64 would take much memory."""
    parts = [array.reshape(-1) for array in (before, after)]
    places = [slice(first, first + _AT_ONCE) for first in range(0, before.size, _AT_ONCE)]
    fill = least_fill([parts[0][place] for place in places])
    size, off = [0.0, 0.0], [0.0, 0.0]  # of the numbers, and of fills, at whose size nothing else shows
    units = [_unit(parts[0], places, those) for those in ((0.0, fill or np.inf), (fill or np.inf, np.inf))]
    for place in places:
        one, other = (array[place].astype(np.float64) for array in parts)
        finite = np.isfinite(one)
        if not (np.isfinite(other) == finite).all() or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return np.inf
        filled = np.zeros_like(finite) if fill is None else finite & (np.abs(one) >= fill)
        with np.errstate(over="ignore"):
            for index, (those, unit) in enumerate(zip((finite & ~filled, filled), units, strict=True)):
                size[index] += float(np.square(one[those] / unit).sum())
                off[index] += float(np.square(other[those] / unit - one[those] / unit).sum())
    least = 0.0 if fill is None else 1.0  # zeros beside fills are judged as one number of the size of 1
    return max(_root(o, s or least) for o, s in zip(off, size, strict=True))


def _root(off: float, size: float) -> float:
    return float((off / size) ** 0.5) if size else (math.inf if off else 0.0)


def _unit(numbers: Array, places: Sequence[slice], within: tuple[float, float]) -> float:
    """Return the largest magnitude from a bound up to another: over it no square of float64 overflows or vanishes.

    It is 1 of narrower dtypes, and where there is no such number but zero.
    """
    if numbers.dtype != np.float64:
        return 1.0
    least, beyond = within
    sizes = (np.abs(numbers[place]) for place in places)
    return max((float(each[(least <= each) & (each < beyond)].max(initial=0.0)) for each in sizes), default=0.0) or 1.0


def _original_outputs(model: ir.Model, samples: Mapping[str, Array], threads: int) -> dict[str, Array]:
    try:
        found = _outputs(model, samples, threads)
    except (FfnExportError, OSError):  # OSError: no room for the outputs
        raise
    except Exception as error:  # onnxruntime's own exceptions derive from Exception alone
        expose_own(error)
        raise UsageError(f"the model refuses the samples: {first_line(error)}") from error
    if not any(array.size for array in found.values()):
        raise UsageError("no output has an element on the samples, so nothing can be judged: give samples with rows")
    floats = [array for array in found.values() if is_floating(array)]
    if floats and not any(np.isfinite(array).any() for array in floats):
        raise UsageError("no output has a finite number on the samples, so nothing can be judged: give other samples")
    return found


def _outputs(model: ir.Model, samples: Mapping[str, Array], threads: int, *, packed: bool = False) -> dict[str, Array]:
    """Return the rows of the outputs on the samples, which run a few at a time, without padding."""
    return _of_parts(model, batches(samples, model), threads, packed=packed)


def _of_parts(
    model: ir.Model, parts: Iterable[Mapping[str, Array]], threads: int, *, packed: bool = False
) -> dict[str, Array]:
    runner = load_in_place(model, threads, packed=packed)
    found: dict[str, RowsOnDisk] = defaultdict(RowsOnDisk)
    for feeds in parts:
        for name, array in runner.run(feeds).items():
            found[name].add(real_rows(feeds, array))
    return {name: rows.joined() for name, rows in found.items()}
