"""Pair the initializers of two models, by content before name, so that a renamed or transposed weight is found."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.types import Array
from ffn_export.inspection import facts
from ffn_export.inspection.difference import WeightPair
from ffn_export.inspection.open_model import OpenModel


@dataclass(frozen=True, eq=False)
class Stored:
    """An initializer and its content."""

    value: ir.Value

    @property
    def name(self) -> str:
        """Name of the initializer."""
        return str(self.value.name)

    @property
    def array(self) -> Array:
        """Its values, read again on each access, so that weights do not accumulate in memory."""
        assert self.value.const_value is not None
        return self.value.const_value.numpy()

    @cached_property
    def type(self) -> str:
        """Dtype and shape in one word, such as ``float32[768,3072]``."""
        assert self.value.const_value is not None
        return facts.type_words(self.value.const_value)

    @cached_property
    def content(self) -> Hashable:
        """Key of equal weights: dtype, shape and a hash of the bytes."""
        return _digest(self.array)

    @cached_property
    def turned(self) -> Hashable:
        """The content of the transposed matrix; for other ranks, a key that equals no other."""
        return _digest(self.array.T) if self.array.ndim == 2 else self


@dataclass(frozen=True)
class Paired:
    """An initializer of A, its counterpart in B, and their entry in the report."""

    a: Stored | None
    b: Stored | None
    report: WeightPair


Key = Callable[[Stored], Hashable]

# Keys of equal weights, most certain first: each step pairs only weights that earlier steps left.
_EQUAL: tuple[tuple[Key, Key, bool], ...] = (
    (lambda a: (a.name, a.content), lambda b: (b.name, b.content), False),
    (lambda a: a.content, lambda b: b.content, False),
    (lambda a: (a.name, a.content), lambda b: (b.name, b.turned), True),
    (lambda a: a.content, lambda b: b.turned, True),
)


def pair(a: OpenModel, b: OpenModel) -> list[Paired]:
    """Return each initializer of A and B once, with its counterpart if it has one."""
    left, right = (
        [Stored(v) for v, _ in onnx_file.weights(opened.model) if v not in opened.missing] for opened in (a, b)
    )
    found = []
    for key_a, key_b, transposed in _EQUAL:
        for one, other in _take(left, right, key_a, key_b):
            report = WeightPair("equal", one.name, other.name, one.type, other.type, transposed=transposed)
            found.append(Paired(one, other, report))
    for one, other in _take(left, right, lambda a: a.name, lambda b: b.name):
        relative = _max_relative(one.array, other.array)
        report = WeightPair("changed", one.name, other.name, one.type, other.type, max_relative=relative)
        found.append(Paired(one, other, report))
    found += [Paired(w, None, WeightPair("only in A", a=w.name, type_a=w.type)) for w in left]
    found += [Paired(None, w, WeightPair("only in B", b=w.name, type_b=w.type)) for w in right]
    unread_a, unread_b = (sorted(map(Stored, opened.missing), key=lambda w: w.name) for opened in (a, b))
    found += [Paired(w, None, WeightPair("not compared", a=w.name, type_a=w.type)) for w in unread_a]
    found += [Paired(None, w, WeightPair("not compared", b=w.name, type_b=w.type)) for w in unread_b]
    return found


def _take(left: list[Stored], right: list[Stored], key_a: Key, key_b: Key) -> list[tuple[Stored, Stored]]:
    """Remove the pairs whose keys are equal from both lists, and return them."""
    waiting: dict[Hashable, list[Stored]] = defaultdict(list)
    for weight in right:
        waiting[key_b(weight)].append(weight)
    taken = [(weight, same.pop(0)) for weight in left if (same := waiting.get(key_a(weight)))]
    for one, other in taken:
        left.remove(one)
        right.remove(other)
    return taken


def _max_relative(a: Array, b: Array) -> float | None:
    """Return the largest difference over the largest magnitude of A; infinite if only one value is finite."""
    if a.shape != b.shape or object in (a.dtype, b.dtype):
        return None
    x, y = a.astype(np.float64), b.astype(np.float64)
    differing = (x != y) & ~(np.isnan(x) & np.isnan(y))
    if not differing.any():
        return 0.0
    largest = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    difference = np.abs(x[differing] - y[differing]).max()
    return float(difference / largest) if largest and np.isfinite(difference) else float("inf")


def _digest(array: Array) -> Hashable:
    if array.dtype == object:  # strings
        return (array.shape, tuple(array.reshape(-1)))
    contiguous = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return (array.dtype.name, array.shape, hashlib.sha256(contiguous.data).digest())
