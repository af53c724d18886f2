"""Evaluate an ONNX graph in float64 with ONNX's reference evaluator: the oracle of an ONNX reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.external_data import load_to_model

from ffn_export.core import onnx_file
from ffn_export.core.drawing import is_floating
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.runtimes.reference import evaluator_of, unknown_operator

_WORKING = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_MOST_BYTES = 2**31


class GraphOracle:
    """A graph evaluated in float64.

    Raises:
        NotImplementedError: If the graph has an operator that neither the reference evaluator nor
            :mod:`ffn_export.runtimes.contrib_operators` implements, has model-local functions, or is too large in
            float64, since the evaluator holds several copies of the weights.
    """

    def __init__(self, path: Path) -> None:
        from ffn_export.runtimes import contrib_operators

        lazy = onnx_file.load(path)
        tensors = (value.const_value for value in lazy.graph.initializers.values())
        if sum(np.float64().itemsize * tensor.size for tensor in tensors if tensor is not None) > _MOST_BYTES:
            raise NotImplementedError(f"no float64 evaluation of {path.name}: its weights are too large in float64")
        model = load_to_model(lazy)
        reason = "functions of its own stay in their dtype" if model.functions else unknown_operator(model)
        if any(node.op_type in contrib_operators.QUANTIZED for node in model.graph.all_nodes()):
            reason = "what it rounds to few bits is another number in float64"
        if reason is not None:
            raise NotImplementedError(f"no float64 evaluation of {path.name}: {reason}")
        promote(model)
        self.outputs = [str(value.name) for value in model.graph.outputs]
        try:
            self._evaluator = evaluator_of(model)
        except Exception as error:  # the evaluator may raise anything
            expose_own(error)
            raise NotImplementedError(f"no float64 evaluation of {path.name}: {first_line(error)}") from error

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs in order, floating-point ones in float64."""
        wide = {n: a.astype(np.float64) if is_floating(a) else a for n, a in feeds.items()}
        with np.errstate(all="ignore"):  # inputs may hold NaN and infinity
            results: Any = self._evaluator.run(self.outputs, wide)
        return list(results)


def promote(model: ir.Model) -> None:
    """Convert float32, float16 and bfloat16 in a model to float64, in place."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype in _WORKING:
                value.const_value = _wide(value.const_value)
                value.dtype = ir.DataType.DOUBLE
        for value in (*graph.inputs, *(output for node in graph for output in node.outputs)):
            if value.dtype in _WORKING:
                value.dtype = ir.DataType.DOUBLE
    for node in model.graph.all_nodes():
        for attribute in list(node.attributes.values()):
            node.attributes[attribute.name] = _promoted(node, attribute)


def _promoted(node: ir.Node, attribute: ir.Attr) -> ir.Attr:
    if attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype in _WORKING:
        return ir.AttrTensor(attribute.name, _wide(attribute.value))
    names_dtype = attribute.name in ("to", "dtype") and attribute.type == ir.AttributeType.INT
    if names_dtype and ir.DataType(attribute.value) in _WORKING:
        return ir.AttrInt64(attribute.name, ir.DataType.DOUBLE.value)
    if node.op_type == "Constant" and attribute.name == "value_float":
        return ir.AttrTensor("value", ir.Tensor(np.asarray(attribute.value, np.float64)))
    return attribute


def _wide(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy().astype(np.float64), name=tensor.name)
