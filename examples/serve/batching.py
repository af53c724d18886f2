"""Join the inputs of several requests into one run of a bundle, and split its outputs again. NumPy alone.

Requests are joined along the first axis if all inputs and outputs have it. Lengths may differ if the bundle has a
mask: inputs are padded with zeros along its last axis, and outputs are cut back.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


class Batching:
    """What may be joined, by the manifest of a bundle."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._inputs = {tensor["name"]: list(tensor["shape"]) for tensor in manifest["inputs"]}
        self._outputs = {tensor["name"]: list(tensor["shape"]) for tensor in manifest["outputs"]}
        shapes = [*self._inputs.values(), *self._outputs.values()]
        first = {shape[0] if shape else None for shape in shapes}
        self.is_possible = len(first) == 1 and all(isinstance(axis, str) for axis in first)
        masks = {name for name, declared in manifest["source"]["inputs"].items() if declared.endswith("{mask}")}
        padded = {self._inputs[name][-1] for name in masks & set(self._inputs)}
        self._padded = padded.pop() if len(padded) == 1 else None  # a name: axes of a fixed size need no padding

    def groups(self, requests: Sequence[Arrays]) -> list[list[int]]:
        """Return the numbers of the requests that can run together."""
        if not self.is_possible:
            return [[number] for number in range(len(requests))]
        kinds: dict[object, list[int]] = {}
        for number, request in enumerate(requests):
            kinds.setdefault(self._kind(request), []).append(number)
        return list(kinds.values())

    def join(self, requests: Sequence[Arrays]) -> dict[str, np.ndarray]:
        """Return the inputs of one run."""
        length = max(map(self._length, requests))
        return {
            name: np.concatenate([_padded(each[name], shape, self._padded, length) for each in requests])
            for name, shape in self._inputs.items()
        }

    def split(self, outputs: Arrays, requests: Sequence[Arrays]) -> list[dict[str, np.ndarray]]:
        """Return the outputs of each request."""
        ends = list(itertools.accumulate(len(next(iter(each.values()))) for each in requests))
        return [
            {
                name: array[(slice(begin, end), *self._cut(name, self._length(request)))]
                for name, array in outputs.items()
            }
            for begin, end, request in zip([0, *ends], ends, requests, strict=False)
        ]

    def _kind(self, request: Arrays) -> object:
        """Return what requests of one run must share: names, dtypes, and all sizes that cannot be padded."""
        return tuple(
            (name, array.dtype.str, tuple(self._kept(self._inputs.get(name, []), array.shape)))
            for name, array in sorted(request.items())
        )

    def _kept(self, shape: Sequence[object], sizes: Sequence[int]) -> list[int]:
        if len(shape) != len(sizes):  # not an input of the bundle, which says so when it runs alone
            return [-1, *sizes]
        named = list(zip(shape, sizes, strict=True))[1:]
        return [0 if axis == self._padded else size for axis, size in named]

    def _length(self, request: Arrays) -> int:
        shapes = ((self._inputs[name], array.shape) for name, array in request.items())
        found = (
            size for shape, sizes in shapes for axis, size in zip(shape, sizes, strict=True) if axis == self._padded
        )
        return next(found, 0)

    def _cut(self, name: str, length: int) -> list[slice]:
        return [slice(length if axis == self._padded else None) for axis in self._outputs[name][1:]]


def _padded(array: np.ndarray, shape: Sequence[object], axis: object, length: int) -> np.ndarray:
    """Return an array with zeros up to a length, at the end of its axes of a name."""
    missing = [(0, length - size if name == axis else 0) for name, size in zip(shape, array.shape, strict=True)]
    return np.pad(array, missing) if any(after for _, after in missing) else array
