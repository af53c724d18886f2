"""Specialise a model for given sizes: replace symbolic dimensions by numbers, and fold what depends on sizes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.core.node_graphs import depth_of
from ffn_export.core.quiet import quiet
from ffn_export.core.strict import expose_own
from ffn_export.fusion.inference import prove_shapes

# Deepest nesting of branches and loop bodies that is folded: the time of onnxscript's folding doubles with each level.
_DEEPEST = 8


def at_sizes(model: ir.Model, sizes: Mapping[str, int]) -> ir.Model:
    """Return a copy with concrete shapes: those that the model states, else those inferred from its inputs.

    The model is left unchanged, and the copy shares its weights.
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
            value.shape = shape  # inferred from the model alone, so that its work can be counted
    return concrete


def worked_out(concrete: ir.Model) -> ir.Model:
    """Return a copy with the values folded that sizes decide: trip counts of loops, conditions of branches.

    It takes the result of :func:`at_sizes`, and leaves it unchanged.
    """
    from onnxscript.optimizer import fold_constants

    if depth_of(concrete.graph) > _DEEPEST:
        return concrete
    folded = concrete.clone()
    try:
        with quiet():
            fold_constants(folded, onnx_shape_inference=True)
    except Exception as error:  # noqa: BLE001 - without folding, the trip counts stay unknown, which callers handle
        expose_own(error)
        return concrete
    return folded


def shape_of(value: ir.Value | None) -> list[int] | None:
    """Return the shape of a value of a concrete model, or None if it is unknown."""
    if value is None or value.shape is None:
        return None
    shape = [dim for dim in value.shape if isinstance(dim, int)]
    return shape if len(shape) == len(value.shape) else None


def bytes_of(value: ir.Value) -> int | None:
    """Return the size in bytes of a value of a concrete model, or None if it is unknown."""
    shape = shape_of(value)
    return None if shape is None or value.dtype is None else math.ceil(math.prod(shape) * value.dtype.itemsize)


def _in_numbers(shape: ir.Shape | None, sizes: Mapping[str, int]) -> ir.Shape | None:
    if shape is None:
        return None
    found = []
    for dim in shape:
        try:
            size = dim if isinstance(dim, int) else dim.evaluate(sizes)
        except ValueError:  # another exporter's name, which is not an expression
            return None
        if not isinstance(size, int):
            return None
        found.append(size)
    return ir.Shape(found)
