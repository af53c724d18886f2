"""Gives values the types that the graph does not state, for as long as rules ask for them.

ONNX's inference comes first. Where it does not know an axis, ONNX Runtime's symbolic one does what it can:
it carries ``batch`` and ``seq`` through the Shape, Gather, Concat and Reshape of an exporter that writes no
types. Axes that no name is given to get one here, so that two values can be seen to share them, and lose it
again in :func:`forget_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

import onnx
import onnx_ir as ir
from onnx_ir.passes.common._c_api_utils import call_onnx_api

from ffn_export.exporter.quiet import quiet
from ffn_export.fusion.shapes import bounded
from ffn_export.strict import expose_own

_UNNAMED = "unnamed_axis_"
_LARGEST_INT = 2**31 - 1  # what the symbolic inference takes for "to the end" in a Slice


def fill_types(model: ir.Model) -> frozenset[str]:
    """Infer the missing dtypes and shapes of values inside the model's graphs, in place.

    The interface of the model stays as it is, but for names that axes of inputs lack.

    Returns:
        The names of axes that the model has itself, for :func:`forget_names`.
    """
    own = frozenset(_names((*model.graph.inputs, *model.graph.outputs, *_computed(model))))
    if _is_complete(model):
        return own
    _name_axes(model.graph.inputs, own)
    if _infer(model) and not _is_complete(model) and _infer_symbolically(model) and not _is_complete(model):
        _infer(model)  # from what was found outside of bodies into them
    return own


def forget_names(model: ir.Model, own: frozenset[str]) -> None:
    """Take back every name of an axis that the model did not come with."""
    given = [value for graph in (model.graph, *model.graph.subgraphs()) for value in graph.inputs]
    for value in (*given, *_computed(model)):
        if value.shape is None or not any(_is_invented(dim, own) for dim in value.shape):
            continue
        value.shape = ir.Shape(None if _is_invented(dim, own) else dim for dim in value.shape)


def _is_complete(model: ir.Model) -> bool:
    return all(_is_known(value) for value in _computed(model))


def _infer(model: ir.Model) -> bool:
    """Take what ONNX's inference finds; return False where it fails."""
    try:
        with quiet():
            # onnx-ir's own pass would call a sequence a tensor.
            inferred = ir.from_proto(call_onnx_api(_shapes, model.clone()))
    except Exception as error:  # noqa: BLE001 - inference is a help: a rule that lacks a type refuses
        expose_own(error)
        return False
    known = frozenset(_names((*model.graph.inputs, *_computed(model))))
    for value, found in zip(_computed(model), _computed(inferred), strict=True):
        _take(value, found.type, _shape_of(found, known))
    return True


def _infer_symbolically(model: ir.Model) -> bool:
    """Take the shapes of the main graph's values that ONNX Runtime's symbolic inference finds; whether any is new."""
    try:
        with quiet():
            found = call_onnx_api(_symbolic_shapes, model.clone())
    except Exception as error:  # noqa: BLE001 - as above
        expose_own(error)
        return False
    learnt = False
    for value in (value for node in model.graph for value in node.outputs):
        proto = found.get(str(value.name))
        if proto is None or not proto.tensor_type.HasField("shape"):
            continue
        dims = [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in proto.tensor_type.shape.dim
        ]
        dtype = ir.TensorType(ir.DataType(proto.tensor_type.elem_type))
        learnt = _take(value, dtype, ir.Shape(dims)) or learnt
    return learnt


def _shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def _symbolic_shapes(proto: onnx.ModelProto) -> Mapping[str, onnx.TypeProto]:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    class Inference(SymbolicShapeInference):  # type: ignore[misc]
        """Merges two axes only where one operator on both proves that they are one."""

        def _merge_symbols(self, dims: list[object]) -> object:
            return super()._merge_symbols(dims) if all(isinstance(dim, str) for dim in dims) else None

        def _add_suggested_merge(self, symbols: list[object], apply: bool = False) -> None:
            if len({bounded(str(symbol)) for symbol in symbols}) > 1:
                raise ValueError(f"{symbols} may be different sizes")
            super()._add_suggested_merge(symbols, apply)

    inference = Inference(_LARGEST_INT, auto_merge=True, guess_output_rank=False, verbose=0)
    inference._preprocess(proto)
    try:
        while inference.run_:
            inference._infer_impl()
    except Exception as error:  # noqa: BLE001 - what it knew by then is as good
        expose_own(error)
        pass
    return {info.name: info.type for info in inference.known_vi_.values() if info.type.HasField("tensor_type")}


def _take(value: ir.Value, dtype: ir.TypeProtocol | None, shape: ir.Shape | None) -> bool:
    """Give a value what it lacks, and return whether it got anything.

    The shape of an output is the model's interface, an unknown one too.
    """
    before = value.type, value.shape
    if value.type is None:
        value.type = dtype
    if shape is not None and not value.is_graph_output():
        value.shape = _completed(value.shape, shape)
    return (value.type, value.shape) != before


def _completed(own: ir.Shape | None, found: ir.Shape) -> ir.Shape:
    if own is None or len(own) != len(found):
        return found if own is None else own
    return ir.Shape(
        new if isinstance(old, ir.SymbolicDim) and old.value is None else old
        for old, new in zip(own, found, strict=True)
    )


def _shape_of(found: ir.Value, known: frozenset[str]) -> ir.Shape | None:
    """Return what ONNX's inference found, without the names that it made up: one may stand for two axes."""
    if found.shape is None:
        return None
    return ir.Shape(None if _is_invented(dim, known) else dim for dim in found.shape)


def _is_invented(dim: int | ir.SymbolicDim, own: frozenset[str]) -> bool:
    return isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value not in own


def _is_known(value: ir.Value) -> bool:
    if value.type is None or value.shape is None:
        return False
    return not any(isinstance(dim, ir.SymbolicDim) and dim.value is None for dim in value.shape)


def _name_axes(values: Iterable[ir.Value], taken: frozenset[str]) -> None:
    free = (name for number in count() if (name := f"{_UNNAMED}{number}") not in taken)
    for value in values:
        dims = []
        for dim in value.shape or ():
            is_unnamed = isinstance(dim, ir.SymbolicDim) and dim.value is None
            dims.append(next(free) if is_unnamed else dim)
        if value.shape is not None:
            value.shape = ir.Shape(dims)


def _names(values: Iterable[ir.Value]) -> Iterator[str]:
    for value in values:
        for dim in value.shape or ():
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                yield dim.value


def _computed(model: ir.Model) -> Iterator[ir.Value]:
    return (value for node in model.graph.all_nodes() for value in node.outputs)
