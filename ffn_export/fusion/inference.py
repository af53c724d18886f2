"""Gives values the types that the graph does not state, and changes nothing that it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from ffn_export.exporter.quiet import quiet


def fill_types(model: ir.Model) -> None:
    """Infer the missing dtypes and shapes of values inside the model's graphs, in place.

    ONNX's shape inference renames axes that have no name (``unk__0``), those of the inputs too, so it
    runs on a copy; what it finds out is taken, its names are not.
    """
    if all(value.type is not None and value.shape is not None for value in _computed(model)):
        return
    inferred = model.clone()
    try:
        with quiet():
            ShapeInferencePass(check_type=False, strict_mode=False)(inferred)
    except Exception:  # noqa: BLE001 - inference is a help: a rule that lacks a type refuses
        return
    names = {dim.value for dim in _dims([*model.graph.inputs, *_computed(model)]) if isinstance(dim, ir.SymbolicDim)}
    for value, found in zip(_computed(model), _computed(inferred), strict=True):
        if value.type is None:
            value.type = found.type
        # The shape of an output is the model's interface, an unknown one too.
        if value.shape is None and found.shape is not None and not value.is_graph_output():
            value.shape = ir.Shape(
                None if isinstance(dim, ir.SymbolicDim) and dim.value not in names else dim for dim in found.shape
            )


def _computed(model: ir.Model) -> Iterator[ir.Value]:
    return (value for node in model.graph.all_nodes() for value in node.outputs)


def _dims(values: Iterable[ir.Value]) -> Iterator[int | ir.SymbolicDim]:
    return (dim for value in values if value.shape is not None for dim in value.shape)
