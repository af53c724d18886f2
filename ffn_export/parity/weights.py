"""Initialisers compared with the parameters that they come from.

An error of 0.1 % in one weight stays below any fair bound on the outputs, so it is looked for where it is. An
initialiser is traced by its numbers: it is the parameter that it is nearest to, as stored, transposed, without its axes
of size 1, or computed from it in a usual way (:mod:`tracing`): packed with others, times a number, ``1 +`` it, the sum
of two, a part of one. What fusing added to it is compared too. One that is near none is not traced, nor one that is
only near a parameter which is in the graph as it is: the ones of an operator that has to have a scale are near to every
norm's weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import torch

from ffn_export.exporter.drawing import Array
from ffn_export.fusion.padded_widths.units import Padding, padded, paddings_of, plain
from ffn_export.parity import module_computes
from ffn_export.parity.measures import WeightMetrics
from ffn_export.parity.tracing import Parameters, Traced
from ffn_export.runtimes.torch_eager import to_numpy

_OF_LARGEST = 2.0**-21


def compare_weights(
    model: ir.Model, module: torch.nn.Module, in_forward: Mapping[str, torch.Tensor] | None = None
) -> tuple[WeightMetrics, ...]:
    """Compare every floating-point initialiser that can be traced to parameters or buffers.

    Args:
        model: The graph on trial.
        module: The module that it comes from.
        in_forward: What ``forward`` computes of parameters alone, by a name for it.
    """
    named = (*module.named_parameters(), *module.named_buffers())
    computed = (*module_computes.computed(module), *module_computes.folded(module))
    parameters = Parameters(_arrays(named), _arrays(computed), _arrays((in_forward or {}).items()))
    whole = {str(value.name): array for value in _initializers(model) if (array := _array(value)) is not None}
    paddings = {str(value.name): paddings_of(value) for value in _initializers(model)}
    stored = {name: plain(array, paddings[name]) for name, array in whole.items()}
    traced = {name: found for name, array in stored.items() if (found := parameters.equal(array)) is not None}
    there = {found.parameter for found in traced.values()}
    # What a parameter is made into may be nearly the parameter, as a weight is whose norm is about the one asked for.
    made_into_others = there | module_computes.ingredients(module)
    for name, array in stored.items():
        found = traced.get(name) or parameters.nearest(array, made_into_others) or parameters.computed(array, there)
        if found is not None:
            traced[name] = found
    return tuple(
        _metrics(name, whole[name], _padded(found, stored[name], paddings[name])) for name, found in traced.items()
    )


def _padded(traced: Traced, stored: Array, paddings: Sequence[Padding]) -> Traced:
    """Return what is expected with what is added to it."""
    if not paddings:
        return traced
    return replace(traced, expected=padded(traced.expected.reshape(stored.shape), paddings))


def _arrays(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, Array]:
    return {name: to_numpy(tensor) for name, tensor in named if tensor.is_floating_point() and tensor.numel() > 1}


def _initializers(model: ir.Model) -> list[ir.Value]:
    return [value for graph in (model.graph, *model.graph.subgraphs()) for value in graph.initializers.values()]


def _array(initializer: ir.Value) -> Array | None:
    stored = initializer.const_value
    if stored is None or stored.size <= 1 or not stored.dtype.is_floating_point():
        return None
    return stored.numpy()


def _metrics(initializer: str, stored: Array, traced: Traced) -> WeightMetrics:
    have, want = (array.astype(np.float64).reshape(stored.shape) for array in (stored, traced.expected))
    with np.errstate(invalid="ignore"):
        difference = np.abs(have - want)
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=0.0)) or 1.0
    # Where terms cancel, what a computation rounds is a share of the terms.
    rounding = np.maximum(traced.rounding * np.abs(want), min(traced.rounding, _OF_LARGEST) * largest)
    difference[(have == want) | (difference <= rounding)] = 0.0
    difference = np.nan_to_num(difference, nan=np.inf)
    norm = float(np.linalg.norm(want)) or 1.0
    index = np.unravel_index(int(difference.argmax()), difference.shape)
    return WeightMetrics(
        initializer,
        traced.parameter,
        int(np.count_nonzero(difference)),
        float(difference.max(initial=0.0)) / largest,
        tuple(int(i) for i in index),
        traced.how,
        float(np.linalg.norm(difference)) / norm,
    )
