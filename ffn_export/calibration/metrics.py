"""Metrics of a quantised model on the user's samples: built-in ones, and functions of the user's own file."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.core.drawing import is_floating
from ffn_export.core.fills import fills
from ffn_export.core.types import Array
from ffn_export.errors import UsageError

Outputs = Mapping[str, Array]
# Share of a fill by which it may differ, and still take the element out.
_STILL_FILLED = 0.5


@dataclass(frozen=True)
class Metric:
    """A figure of merit that a quantised model must reach.

    Attributes:
        name: Name, as the user wrote it.
        least: The least figure that passes.
        measure: Function of the outputs before and after.
    """

    name: str
    least: float
    measure: Callable[[Outputs, Outputs], float]


@dataclass(frozen=True)
class Measured:
    """A metric's figure.

    Attributes:
        name: Name of the metric.
        value: The figure.
        least: The least figure that passes.
    """

    name: str
    value: float
    least: float

    @property
    def passed(self) -> bool:
        """Whether the figure passes; NaN does not."""
        return self.value >= self.least

    @property
    def words(self) -> str:
        """The figure and its bound, in words."""
        return f"{self.name}: {beside(self.value, self.least, 4)} on the samples, at least {self.least:g} is asked for"


def beside(figure: float, bound: float, digits: int = 3) -> str:
    """Return a figure in a few digits, or in as many as show on which side of a bound it is."""
    shown = (f"{figure:.{digits}g}" for digits in (digits, 6, 9, 17))
    return next(
        (each for each in shown if (float(each) < bound, float(each) > bound) == (figure < bound, figure > bound)),
        str(figure),
    )


def judge(metric: Metric, before: Outputs, after: Outputs) -> Measured:
    """Measure outputs by a metric.

    Raises:
        UsageError: If a user's function fails or returns no number.
    """
    try:
        value = float(metric.measure(before, after))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{metric.name} failed: {type(error).__name__}: {error}") from error
    return Measured(metric.name, value, metric.least)


def parse(text: str) -> Metric:
    """Read ``cosine=0.998``, ``top1=0.99``, ``FILE.py:function`` or ``FILE.py:function=0.9``.

    Raises:
        UsageError: If it is none of these, or the function cannot be loaded.
    """
    name, _, bound = text.rpartition("=") if "=" in text else (text, "", "")
    path, _, function = name.rpartition(":")
    try:
        least = float(bound) if bound else math.nan
    except ValueError:
        raise UsageError(f"--metric {text}: {bound!r} is no number") from None
    if path.endswith(".py"):
        # A function without a bound returns whether the outputs are good: True counts as 1.
        return Metric(name, least if bound else 1.0, _load(Path(path), function))
    if name not in _KNOWN or not 0 < least <= 1:
        raise UsageError(f"--metric {text} is not known: take cosine=0.998, top1=0.99 or FILE.py:function")
    return Metric(name, least, _KNOWN[name])


def cosine(before: Outputs, after: Outputs) -> float:
    """Mean cosine of the rows of an output before and after; the least over the outputs, NaN if a shape differs."""
    found = [_mean_cosine(array, after[name]) for name, array in before.items() if is_floating(array)]
    if not found:
        raise UsageError("cosine is of outputs of floats, which the model lacks: take top1 or FILE.py:function")
    return _least(found)


def top1(before: Outputs, after: Outputs) -> float:
    """Share of rows whose largest element stays the same, and of integers that do.

    It is the least over the outputs, and NaN if a shape differs.
    """
    return _least([_share_of_same(array, after[name]) for name, array in before.items() if array.ndim])


def _least(found: Sequence[float]) -> float:
    """Return the least figure; NaN, which passes no bound, if one is NaN."""
    return float(np.min(found))


def _share_of_same(before: Array, after: Array) -> float:
    if before.shape != after.shape:
        return math.nan
    return float(np.mean(_first(before) == _first(after))) if before.size else 1.0


def _first(array: Array) -> Array:
    """Return the place of the largest element of each row; integers are such places already."""
    found: Array = array.argmax(axis=-1) if is_floating(array) else array
    return found


def _mean_cosine(before: Array, after: Array) -> float:
    if before.shape != after.shape:
        return math.nan
    if not before.size:
        return 1.0
    width = before.shape[-1] if before.ndim else 1
    one, other = (array.reshape(-1, width).astype(np.float64) for array in (before, after))
    masked = np.isinf(one) & (one == other)  # such as logits that a mask takes out
    filled = fills(one)  # or sets to -1e9
    if filled is not None:
        with np.errstate(invalid="ignore"):  # infinity less infinity
            masked |= filled & (np.abs(other - one) <= _STILL_FILLED * np.abs(one))
    one[masked] = other[masked] = 0.0
    there = (one != 0).any(axis=1)  # NaN is there, and its mean fails every bound
    if not there.any():
        return 1.0
    one, other = _of_length_one(one[there]), _of_length_one(other[there])
    return float(np.mean((one * other).sum(axis=1)))


def _of_length_one(rows: Array) -> Array:
    """Return rows of length 1, and of zeros those of length 0: no square overflows or vanishes."""
    with np.errstate(invalid="ignore"):
        rows = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: Array = rows / np.where(lengths == 0, 1.0, lengths)
    return scaled


_KNOWN: Mapping[str, Callable[[Outputs, Outputs], float]] = {"cosine": cosine, "top1": top1}


def _load(path: Path, function: str) -> Callable[[Outputs, Outputs], float]:
    """Import a function of the user's file, which the user named on the command line."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(f"no such file: {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{path} has no function {function!r}")
    return lambda before, after: float(found(dict(before), dict(after)))
