"""Find the nodes that compute with sizes alone, which ONNX Runtime keeps on the CPU for any device.

Shapes are in host memory, and the kernels that take them read them there. So a node such as the Concat before a
Reshape gains nothing from a GPU. These nodes depend on the sizes of inputs and on none of their values.
"""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.words import words

# Operators from integers to integers whose outputs are about as large as their inputs. None can fill a mask from two
# sizes.
_ARITHMETIC = words(
    "Abs Add And Cast Concat Div Equal Gather Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not "
    "Or ReduceMax ReduceMin ReduceProd ReduceSum Reshape Slice Split Squeeze Sub Unsqueeze Where"
)
_OF_ANYTHING = frozenset({"Shape", "Size"})


def nodes_on_sizes(model: ir.Model) -> frozenset[tuple[str, str]]:
    """Return ``(operator, name)`` of each node that computes with sizes alone.

    A session identifies nodes by name, so a node counts only if its name is unique.
    """
    names = Counter(node.name for node in model.graph.all_nodes())
    sizes: set[ir.Value] = set()
    found = set()
    for node in model.graph:
        if _computes_with_sizes(node, sizes):
            sizes.update(node.outputs)
            if node.name and names[node.name] == 1:
                found.add((node.op_type, node.name))
    return frozenset(found)


def _computes_with_sizes(node: ir.Node, sizes: set[ir.Value]) -> bool:
    if node.domain != "":
        return False
    if node.op_type in _OF_ANYTHING:
        return True
    given = [value for value in node.inputs if value is not None]
    return (
        node.op_type in _ARITHMETIC
        and any(value in sizes for value in given)
        and all(value in sizes or _is_constant_of_integers(value) for value in given)
        and (node.op_type != "Cast" or _is_of_integers(node.attributes.get_int("to", 0)))
    )


def _is_constant_of_integers(value: ir.Value) -> bool:
    tensor = None if value.is_graph_input() else constant_tensor(value)
    return tensor is not None and _is_of_integers(tensor.dtype.value)


def _is_of_integers(dtype: int) -> bool:
    return dtype == ir.DataType.BOOL.value or ir.DataType(dtype).is_integer()
