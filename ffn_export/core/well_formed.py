"""Check that a parsed graph can run: order of nodes, missing values, function calls, sizes of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.core import function_calls, operator_schemas
from ffn_export.core.operator_schemas import described

_MOST_NODES = 200_000  # ten times as many as the largest networks have
_MOST_NUMBERS = 2**59 - 1  # NumPy counts the bytes of an array in 63 bits, and a number has up to 16 of them
_DEEPEST = 500  # ONNX Runtime's inliner overflows the stack at a few thousand, which ends the process


def order(model: ir.Model) -> None:
    """Sort the nodes of each graph topologically, which ONNX requires and ONNX Runtime does not.

    For example, the float16 conversion of onnxconverter appends the casts of inputs at the end.

    Raises:
        ValueError: If the nodes form a cycle.
    """
    model.graph.sort()
    for function in model.functions.values():
        function.sort()


def faults(model: ir.Model) -> Iterator[str]:
    """Yield the faults of a model, in words: values without a producer, no outputs, weights of the wrong size.

    Nodes are held against the definitions of their operators.
    """
    if not model.graph.outputs:
        yield "it has no outputs"
    yield from _of_functions(model)
    for graph in model.graphs():
        inside = "" if graph is model.graph else f" in {graph.name or 'a body'}"
        for output in graph.outputs:
            if _is_made_by_nothing(output):
                yield f"nothing makes its output {output.name!r}{inside}"
        for node in graph:
            # protobuf gives text that is not UTF-8 as bytes, which cannot be written again.
            if any(isinstance(text, bytes) for text in (node.op_type, node.domain, node.name)):
                yield f"the name {node.op_type!r} or {node.name!r} of a node is no UTF-8"
            for value in node.inputs:
                if value is not None and _is_made_by_nothing(value):
                    yield f"{described(node)} reads {value.name!r}{inside}, which nothing makes"
        for words, tensor in _stored(graph):
            yield from _of_size(words, tensor)
    yield from operator_schemas.faults(model)


def _of_functions(model: ir.Model) -> Iterator[str]:
    """Yield faults of functions: recursion, and more nodes or deeper calls than a runtime could inline."""
    try:
        whole = function_calls.written_out(model)
    except ValueError as error:
        yield str(error)
    else:
        if model.functions and whole.nodes > _MOST_NODES:
            count = f"{whole.nodes:.0e} nodes when their calls are written out"
            yield f"its functions come to {count}, {_MOST_NODES:,} are read"
        if whole.depth > _DEEPEST:
            yield f"its functions call each other {whole.depth} deep, {_DEEPEST} calls are read"


def _is_made_by_nothing(value: ir.Value) -> bool:
    return bool(value.name) and value.producer() is None and not value.is_graph_input() and not value.is_initializer()


def _stored(graph: ir.Graph | ir.Function) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """Yield the tensors in the file with the words for each: initializers, and those that nodes hold."""
    if isinstance(graph, ir.Graph):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield f"initializer {value.name!r}", value.const_value
    for node in graph:
        for name, attribute in node.attributes.items():
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                yield f"{name!r} of {described(node)}", attribute.as_tensor()
            elif attribute.type == ir.AttributeType.TENSORS and not attribute.is_ref():
                yield from ((f"{name!r} of {described(node)}", tensor) for tensor in attribute.as_tensors())


def _of_size(words: str, tensor: ir.TensorProtocol) -> Iterator[str]:
    """Yield a wrong size of a tensor in the file; the files of external weights are checked on their own."""
    if tensor.dtype == ir.DataType.UNDEFINED:
        yield f"{words} has no data type"
        return
    # Where one size is 0 the others take no byte, and no library can hold them all the same.
    if math.prod(size or 1 for size in tensor.shape.numpy()) > _MOST_NUMBERS:
        yield f"{words} has the shape {list(tensor.shape.numpy())}, which no array can have"
        return
    if not isinstance(tensor, ir.TensorProtoTensor | ir.StringTensor):
        return
    kind = "string" if tensor.dtype == ir.DataType.STRING else tensor.dtype.numpy().name
    shape = f"{kind}[{','.join(map(str, tensor.shape.numpy()))}]"
    if isinstance(tensor, ir.TensorProtoTensor) and tensor.raw.HasField("raw_data"):
        held = len(tensor.raw.raw_data)
        if held != tensor.nbytes:
            yield f"{words} holds {held:,} bytes, and {shape} takes {tensor.nbytes:,}"
        return
    try:
        tensor.numpy()
    except ValueError:
        yield f"{words} holds another count of numbers than {shape} takes"
