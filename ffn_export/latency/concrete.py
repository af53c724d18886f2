"""A model at given sizes: the shapes of its values as numbers, and what follows from sizes alone worked out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.core.quiet import quiet
from ffn_export.core.strict import expose_own
from ffn_export.fusion.inference import prove_shapes


def at_sizes(model: ir.Model, sizes: Mapping[str, int]) -> ir.Model:
    """Return a copy whose shapes are numbers: as the model states them, or as they follow from those of its inputs.

    Args:
        model: The model; it is left unchanged, and the copy shares its weights.
        sizes: Size of each symbolic dimension.
    """
    concrete = model.clone()
    interface = {*concrete.graph.inputs, *concrete.graph.outputs}
    bodies = list(concrete.graph.subgraphs())
    given = [value for graph in (concrete.graph, *bodies) for value in graph.inputs]
    computed = [value for graph in (concrete.graph, *bodies) for node in graph for value in node.outputs]
    for value in (*given, *computed):
        shape = _in_numbers(value.shape, sizes)
        if shape is not None or value not in interface:
            value.shape = shape
    stated = prove_shapes(concrete)
    for value, shape in stated.shapes.items():
        if shape_of(value) is None:
            value.shape = shape  # work is counted where the model alone says how much there is
    return concrete


def worked_out(concrete: ir.Model) -> ir.Model:
    """Return a copy in which constants stand for what sizes decide: how often a loop runs, and which branch is taken.

    Args:
        concrete: What :func:`at_sizes` made; it is left unchanged.
    """
    from onnxscript.optimizer import fold_constants

    folded = concrete.clone()
    try:
        with quiet():
            fold_constants(folded, onnx_shape_inference=True)
    except Exception as error:  # noqa: BLE001 - what is not worked out is not known, which is an answer too
        expose_own(error)
        return concrete
    return folded


def shape_of(value: ir.Value | None) -> list[int] | None:
    """Return the shape of a value of a model at sizes, or None where it is not known."""
    if value is None or value.shape is None:
        return None
    shape = [dim for dim in value.shape if isinstance(dim, int)]
    return shape if len(shape) == len(value.shape) else None


def bytes_of(value: ir.Value) -> int | None:
    """Return how many bytes a value of a model at sizes takes, or None where that is not known."""
    shape = shape_of(value)
    return None if shape is None or value.dtype is None else math.ceil(math.prod(shape) * value.dtype.itemsize)


def _in_numbers(shape: ir.Shape | None, sizes: Mapping[str, int]) -> ir.Shape | None:
    if shape is None:
        return None
    found = []
    for dim in shape:
        try:
            size = dim if isinstance(dim, int) else dim.evaluate(sizes)
        except ValueError:  # a name that is no expression, as another exporter writes
            return None
        if not isinstance(size, int):
            return None
        found.append(size)
    return ir.Shape(found)
