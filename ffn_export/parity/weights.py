"""Initialisers compared with the parameters that they come from.

An error of 0.1 % in one weight stays below any fair bound on the outputs, so it is looked for where
it is. An initialiser is traced by its numbers: it is the parameter that it is nearest to, as stored,
transposed, or without its axes of size 1. One that is near none (folded, scaled, packed) is not traced, nor one that
is only near a parameter which is in the graph as it is: the ones of an operator that has to have a scale are near to
every norm's weight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import torch

from ffn_export.exporter.drawing import Array
from ffn_export.parity.measures import WeightMetrics
from ffn_export.runtimes.torch_eager import to_numpy

# Nearer than this, relative to the parameter's norm, an initialiser is that parameter or was meant to
# be. Two independent matrices are about 1.4 apart.
_TRACED_WITHIN = 0.1


def compare_weights(model: ir.Model, module: torch.nn.Module) -> tuple[WeightMetrics, ...]:
    """Compare every floating-point initialiser that can be traced to a parameter or buffer."""
    by_shape: dict[tuple[int, ...], list[tuple[str, Array]]] = defaultdict(list)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point() and tensor.numel() > 1:
            for view in _views(to_numpy(tensor)):
                by_shape[view.shape].append((name, view))
    traced: dict[str, tuple[Array, str, Array]] = {}
    open_ones: dict[str, Array] = {}
    for initializer in model.graph.initializers.values():
        stored = initializer.const_value
        if stored is None or stored.size <= 1 or not stored.dtype.is_floating_point():
            continue
        array = stored.numpy()
        if array.shape not in by_shape:
            array = array.squeeze()  # a translation may give it axes to be broadcast along
        equal = _equal(array, by_shape.get(array.shape, []))
        if equal is None:
            open_ones[str(initializer.name)] = array
        else:
            traced[str(initializer.name)] = (array, *equal)
    there = {parameter for _, parameter, _ in traced.values()}
    for name, array in open_ones.items():
        candidates = [(parameter, view) for parameter, view in by_shape.get(array.shape, []) if parameter not in there]
        nearest = _nearest(array, candidates)
        if nearest is not None:
            traced[name] = (array, *nearest)
    return tuple(_metrics(str(name), *traced[name]) for name in model.graph.initializers if name in traced)


def _views(array: Array) -> Iterator[Array]:
    squeezed = array.squeeze()
    yield array
    if squeezed.shape != array.shape:
        yield squeezed
    if squeezed.ndim == 2:
        yield squeezed.T


def _equal(stored: Array, candidates: list[tuple[str, Array]]) -> tuple[str, Array] | None:
    rounded = ((name, parameter.astype(stored.dtype)) for name, parameter in candidates)
    return next(((name, parameter) for name, parameter in rounded if np.array_equal(parameter, stored)), None)


def _nearest(stored: Array, candidates: list[tuple[str, Array]]) -> tuple[str, Array] | None:
    best: tuple[float, str, Array] | None = None
    for name, parameter in candidates:
        rounded = parameter.astype(stored.dtype)
        distance = _distance(stored, rounded)
        if distance <= _TRACED_WITHIN and (best is None or distance < best[0]):
            best = distance, name, rounded
    return None if best is None else best[1:]


def _distance(stored: Array, parameter: Array) -> float:
    """Return the L2 distance relative to the parameter; one wild element does not hide the rest."""
    difference = np.abs(stored.astype(np.float64) - parameter.astype(np.float64)).reshape(-1)
    norm = float(np.linalg.norm(parameter.astype(np.float64)))
    equal = float(np.mean(difference == 0)) if difference.size else 0.0
    if equal > 0.5 and norm > 0:
        return 0.0
    distance = float(np.linalg.norm(difference)) / norm if norm else float(difference.max(initial=0.0))
    return distance if np.isfinite(distance) else np.inf


def _metrics(initializer: str, stored: Array, parameter: str, expected: Array) -> WeightMetrics:
    have, want = stored.astype(np.float64), expected.astype(np.float64)
    difference = np.where(have == want, 0.0, np.abs(have - want))
    difference = np.nan_to_num(difference, nan=np.inf)
    largest = float(np.abs(want).max(initial=0.0)) or 1.0
    index = np.unravel_index(int(difference.argmax()), difference.shape)
    return WeightMetrics(
        initializer,
        parameter,
        int(np.count_nonzero(difference)),
        float(difference.max(initial=0.0)) / largest,
        tuple(int(i) for i in index),
    )
