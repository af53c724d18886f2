"""Compute the weights that a graph computes from constants alone.

Parametrisations (weight and spectral norm, a low-rank update, a factor of the learning rate) compute the weight in
``forward``. A runtime does so once, when it loads the model, but no pass sees a matrix behind these nodes.

The numbers are computed by onnxruntime, whose numbers the model had before. ONNX's reference evaluator computes Softmax
and BatchNormalization of old opsets as those of today, and accumulates in float16.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.node_graphs import graphs_of
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
# No parametrisation has longer expressions. Each value on a long chain may be read, which would take quadratic time.
_LONGEST = 500
# The largest result of an expression's nodes: a product of a column and a row may be of any size.
_TIMES_ITS_WEIGHTS = 16
_ALWAYS_SMALL = 2**20
# Integers that are shapes, axes or positions: shapes are inferred from their values.
_FEW = 64
_IR_VERSION = 10  # any that onnxruntime and the operators know


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


def is_of_constants(value: ir.Value) -> bool:
    """Whether a value is a constant, or computed from constants alone, by any operators."""
    seen: set[ir.Value] = set()
    waiting = [value]
    while waiting and len(seen) <= _LONGEST:
        each = waiting.pop()
        if each in seen or _is_constant(each):
            continue
        seen.add(each)
        node = each.producer()
        # An input of the graph or of a body, random numbers, or a node whose body may read values of any kind.
        if node is None or not any(node.inputs) or node.op_type.startswith("Random") or any(graphs_of(node)):
            return False
        waiting += [read for read in node.inputs if read is not None]
    return not waiting


def _is_folded(node: ir.Node) -> bool:
    is_read = bool(node.inputs) and len(node.outputs) == 1 and not node.outputs[0].is_graph_output()
    return node.domain == "" and node.op_type in _FOLDED and is_read


def _is_constant(value: ir.Value) -> bool:
    tensor = None if value.is_graph_input() else constant_tensor(value)
    return tensor is not None and tensor.dtype != ir.DataType.STRING


def _fold(graph: ir.Graph, root: ir.Value, order: Mapping[ir.Node | None, int], opsets: Mapping[str, int]) -> int:
    expression = _expression(root)
    if expression is None:
        return 0
    nodes = sorted(expression, key=lambda node: order[node])
    leaves = {
        value: tensor
        for node in nodes
        for value in node.inputs
        if value is not None and (tensor := constant_tensor(value)) is not None
    }
    own_leaves = (leaf for leaf in leaves if not leaf.is_graph_output() and set(leaf.consumers()) <= expression)
    replaced = [leaves[leaf] for leaf in own_leaves]
    own = sum(tensor.nbytes for tensor in replaced)
    if max((tensor.size for tensor in leaves.values()), default=1) == 1:
        return 0  # rules read numbers as they stand
    if not replaced or _known_bytes(root) > own:
        return 0
    array = _computed(nodes, leaves, root, opsets, own)
    if array is None or array.nbytes > own:
        return 0
    weight = ir.val(str(root.name), const_value=ir.Tensor(array, name=root.name))
    graph.register_initializer(weight)
    ir.convenience.replace_all_uses_with(root, weight)
    for node in reversed(nodes):
        if not node.outputs[0].uses():
            graph.remove(node, safe=True)
    for leaf in leaves:
        writer = leaf.producer()
        if leaf.uses() or leaf.is_graph_output():
            continue
        if writer is not None:
            graph.remove(writer, safe=True)
        else:
            del graph.initializers[str(leaf.name)]
    return 1


def _known_bytes(value: ir.Value) -> int:
    """Return the size of a value as far as the graph states it."""
    if value.shape is None or value.dtype is None:
        return 0
    return math.ceil(math.prod(size if isinstance(size, int) else 1 for size in value.shape) * value.dtype.itemsize)


def _expression(root: ir.Value) -> set[ir.Node] | None:
    """Return the nodes that compute a value from constants; None if they are too many."""
    found: set[ir.Node] = set()
    waiting: list[ir.Value | None] = [root]
    while waiting:
        value = waiting.pop()
        node = None if value is None or _is_constant(value) else value.producer()
        if node is not None and node not in found:
            found.add(node)
            waiting += node.inputs
        if len(found) > _LONGEST:
            return None
    return found


def _computed(
    nodes: Iterable[ir.Node],
    leaves: Mapping[ir.Value, ir.TensorProtocol],
    root: ir.Value,
    opsets: Mapping[str, int],
    own: int,
) -> Array | None:
    """Compute a value; None if that is not possible, or takes much more memory than the weights."""
    few = {leaf: tensor for leaf, tensor in leaves.items() if tensor.dtype.is_integer() and tensor.size <= _FEW}
    fed = {leaf: tensor for leaf, tensor in leaves.items() if leaf not in few}
    imports = [onnx.helper.make_opsetid("", opsets.get("", 18))]
    try:
        made = onnx.helper.make_graph(
            [ir.to_proto(node) for node in nodes],
            "weight",
            [
                onnx.helper.make_tensor_value_info(str(leaf.name), tensor.dtype.value, tensor.shape.numpy())
                for leaf, tensor in fed.items()
            ],
            [onnx.ValueInfoProto(name=root.name)],
            [onnx.numpy_helper.from_array(tensor.numpy(), str(leaf.name)) for leaf, tensor in few.items()],
        )
        model = onnx.helper.make_model(made, opset_imports=imports, ir_version=_IR_VERSION)
        size, largest = _sizes(model)
        if size > own or largest > max(_TIMES_ITS_WEIGHTS * own, _ALWAYS_SMALL):
            return None
        feeds = {str(leaf.name): tensor.numpy() for leaf, tensor in fed.items()}
        # onnxruntime has no kernels for bfloat16 on CPU, and an operator that takes it is none of an old opset.
        is_bfloat16 = any(tensor.dtype == ir.DataType.BFLOAT16 for tensor in leaves.values())
        return (_by_reference if is_bfloat16 else _by_onnxruntime)(model, feeds)
    except Exception as error:  # noqa: BLE001 - what cannot be computed stays in the graph
        expose_own(error)
        return None


def _sizes(model: onnx.ModelProto) -> tuple[int, int]:
    """Return the bytes of a model's output, and of the largest value that it computes, as far as shapes are known."""
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    sizes = [_known_bytes(ir.from_proto(info)) for info in (*graph.output, *graph.value_info)]
    return sizes[0], max(sizes)


def _by_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array | None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result: Array = session.run(None, feeds)[0]
    stated = session.get_outputs()[0].type
    # Of a dtype that NumPy does not have, onnxruntime returns the bits.
    return result if stated == f"tensor({ir.DataType.from_numpy(result.dtype).name.lower()})" else None


def _by_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    from onnx.reference import ReferenceEvaluator

    return np.asarray(next(iter(ReferenceEvaluator(model).run(None, dict(feeds)))))
