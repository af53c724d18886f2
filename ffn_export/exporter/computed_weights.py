"""Compute the weights that a graph computes from constants alone.

Parametrisations (weight and spectral norm, a low-rank update, a factor of the learning rate) compute the weight in
``forward``. A runtime does so once, when it loads the model, but no pass sees a matrix behind these nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.core.words import words

# Operators that parametrisations consist of. Not `QuantizeLinear` and its like: runtimes read the scales of a weight in
# integers from these nodes.
_FOLDED = words(
    "Abs Add BatchNormalization Cast Clip Concat Cos Div Einsum Exp Flatten Gather Gemm Identity InstanceNormalization "
    "LayerNormalization Log MatMul Max Min Mul Neg Pow Reciprocal ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin "
    "ReduceSum ReduceSumSquare Relu Reshape Sigmoid Sign Sin Slice Softmax Softplus Sqrt Squeeze Sub Tanh Transpose "
    "Unsqueeze Where"
)


def fold(model: ir.Model) -> int:
    """Replace computed weights by initializers in place, and return their number.

    A weight is left if its initializers are also read elsewhere, so that the model would store more numbers than
    before, such as an embedding that is tied to an output layer.
    """
    graph = model.graph
    fixed: dict[ir.Value, None] = {}
    for node in graph:
        if _is_folded(node) and all(value is None or value in fixed or _is_constant(value) for value in node.inputs):
            fixed.update(dict.fromkeys(node.outputs))
    order = {value.producer(): place for place, value in enumerate(fixed)}
    roots = [value for value in fixed if any(usage.node not in order for usage in value.uses())]
    return sum(_fold(graph, root, order, model.opset_imports) for root in roots)


def _is_folded(node: ir.Node) -> bool:
    is_read = bool(node.inputs) and len(node.outputs) == 1 and not node.outputs[0].is_graph_output()
    return node.domain == "" and node.op_type in _FOLDED and is_read


def _is_constant(value: ir.Value) -> bool:
    tensor = None if value.is_graph_input() else constant_tensor(value)
    return tensor is not None and tensor.dtype != ir.DataType.STRING


def _fold(graph: ir.Graph, root: ir.Value, order: Mapping[ir.Node | None, int], opsets: Mapping[str, int]) -> int:
    nodes = sorted(_expression(root), key=lambda node: order[node])
    leaves = {
        value: tensor
        for node in nodes
        for value in node.inputs
        if value is not None and (tensor := constant_tensor(value)) is not None
    }
    own = sum(tensor.nbytes for leaf, tensor in leaves.items() if leaf.is_initializer() and _is_read_by(leaf, nodes))
    if max(tensor.size for tensor in leaves.values()) == 1 or _known_bytes(root) > own:
        return 0  # rules read numbers as they stand
    array = _computed(nodes, leaves, root, opsets)
    if array is None or array.nbytes > own:
        return 0
    weight = ir.val(str(root.name), const_value=ir.Tensor(array, name=root.name))
    graph.register_initializer(weight)
    ir.convenience.replace_all_uses_with(root, weight)
    for node in reversed(nodes):
        if not node.outputs[0].uses():
            graph.remove(node, safe=True)
    for leaf in leaves:
        if leaf.is_initializer() and not leaf.uses() and not leaf.is_graph_output():
            del graph.initializers[str(leaf.name)]
    return 1


def _known_bytes(value: ir.Value) -> int:
    """Return the size of a value as far as the graph states it."""
    if value.shape is None or value.dtype is None:
        return 0
    return math.ceil(math.prod(size if isinstance(size, int) else 1 for size in value.shape) * value.dtype.itemsize)


def _is_read_by(leaf: ir.Value, nodes: Iterable[ir.Node]) -> bool:
    return not leaf.is_graph_output() and {usage.node for usage in leaf.uses()} <= set(nodes)


def _expression(root: ir.Value) -> set[ir.Node]:
    """Return the nodes that compute a value from constants."""
    found: set[ir.Node] = set()
    waiting: list[ir.Value | None] = [root]
    while waiting:
        value = waiting.pop()
        node = None if value is None or _is_constant(value) else value.producer()
        if node is not None and node not in found:
            found.add(node)
            waiting += node.inputs
    return found


def _computed(
    nodes: Iterable[ir.Node],
    leaves: Mapping[ir.Value, ir.TensorProtocol],
    root: ir.Value,
    opsets: Mapping[str, int],
) -> Array | None:
    """Compute a value by ONNX's reference evaluator; None if it cannot."""
    feeds = {str(leaf.name): tensor.numpy() for leaf, tensor in leaves.items()}
    made = onnx.helper.make_graph(
        [ir.to_proto(node) for node in nodes],
        "weight",
        [
            onnx.helper.make_tensor_value_info(str(leaf.name), tensor.dtype.value, tensor.shape.numpy())
            for leaf, tensor in leaves.items()
        ],
        [onnx.ValueInfoProto(name=root.name)],
    )
    imports = [onnx.helper.make_opsetid("", opsets.get("", 18))]
    try:
        results = ReferenceEvaluator(onnx.helper.make_model(made, opset_imports=imports)).run(None, feeds)
    except Exception as error:  # noqa: BLE001 - what cannot be computed stays in the graph
        expose_own(error)
        return None
    return np.asarray(next(iter(results)))
