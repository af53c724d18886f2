"""Build the nodes that a rule writes, or of a function body: ``op.Gelu(x, approximate="tanh")``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from ffn_export.core.contiguous import contiguous
from ffn_export.core.types import Array
from ffn_export.core.words import words

Values = Sequence[ir.Value | None]


class Builder:
    """Collects the nodes and constants that a rule writes, without names.

    Attributes:
        nodes: Nodes, in the order in which they were written.
        constants: Constants, to be registered as initializers.
    """

    def __init__(self) -> None:
        self._tape = Tape()
        self.constants: list[ir.Value] = []

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """The nodes that were written."""
        return tuple(self._tape.nodes)

    def __getattr__(self, operator: str) -> Callable[..., ir.Value]:
        """Return a function that writes a node of this operator: ``op.Add(x, y)`` is ``op.write("Add", x, y)``."""
        return partial(self.write, operator)

    def write(self, operator: str, /, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Write a node of one output, and return the output; the operator of a vendor is ``domain::Name``."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(
        self, operator: str, outputs: int, /, *inputs: ir.Value | None, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Write a node of this number of outputs, and return them."""
        domain, _, name = operator.rpartition("::")
        return self._tape.op_multi_out(name, inputs, attributes, domain=domain, num_outputs=outputs)

    def constant(self, array: Array | np.generic, dtype: ir.DataType | None = None) -> ir.Value:
        """Write a constant, stored like the exporter's constants."""
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), dtype=dtype)  # NumPy makes a number a row
        value = ir.val(None, const_value=tensor)
        self.constants.append(value)
        return value

    def integers(self, *numbers: int) -> ir.Value:
        """Write a constant with one axis, as sizes and axes are given."""
        return self.constant(np.asarray(numbers, np.int64))

    def computed(self, compute: Callable[[], Any], dtype: ir.DataType, shape: Sequence[int]) -> ir.Value:
        """Write a large constant that is computed whenever it is read, so that no copy of a weight stays in memory."""
        tensor = ir.LazyTensor(lambda: ir.tensor(contiguous(compute()), dtype=dtype), dtype, ir.Shape(shape))
        value = ir.val(None, const_value=tensor)
        self.constants.append(value)
        return value

    def discard(self) -> None:
        """Disconnect the inputs of all nodes, so that they do not count as readers in the graph."""
        for node in self.nodes:
            for place in range(len(node.inputs)):
                node.replace_input_with(place, None)

    def like(self, node: ir.Node, *inputs: ir.Value | None, outputs: int = 1, **changed: Any) -> Sequence[ir.Value]:
        """Write a copy of a node with other inputs, and other values of some attributes; return its outputs."""
        attributes = {name: attribute.value for name, attribute in node.attributes.items()} | changed
        return self.several(f"{node.domain}::{node.op_type}", outputs, *inputs, **attributes)


class BodyBuilder(Builder):
    """Writes the nodes of a function body. Constants are nodes, because a body has no initializers.

    Values get dtypes, which ONNX's reference evaluator needs.
    """

    def several(
        self, operator: str, outputs: int, /, *inputs: ir.Value | None, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Write a node of this number of outputs, and return them."""
        values = super().several(operator, outputs, *inputs, **attributes)
        _set_dtypes(self.nodes[-1])
        return values

    def constant(self, array: Array | np.generic, dtype: ir.DataType | None = None) -> ir.Value:
        """Write a constant as a node."""
        tensor = ir.tensor(array, dtype=dtype)
        return self.Constant(value=ir.AttrTensor("value", ir.Tensor(tensor.numpy(), dtype=tensor.dtype)))


_OF_ONE_DTYPE = words(
    "Add Sub Mul Div MatMul Gemm Reshape Relu Gelu Sigmoid Tanh Erf Elu LeakyRelu ReduceMean Sqrt Reciprocal Split "
    "Swish Identity Slice Concat"
)


def _set_dtypes(node: ir.Node) -> None:
    """Set unknown dtypes of a node's outputs that follow from its inputs or attributes."""
    dtype: ir.DataType | None = None
    if node.op_type == "Cast":
        dtype = ir.DataType(node.attributes["to"].as_int())
    elif node.op_type == "Constant":
        tensor = node.attributes.get("value")
        dtype = ir.DataType.FLOAT if tensor is None else tensor.as_tensor().dtype
    elif node.op_type == "Shape":
        dtype = ir.DataType.INT64
    elif node.op_type in _OF_ONE_DTYPE:
        dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    for value in node.outputs:
        if value.type is None and dtype is not None:
            value.type = ir.TensorType(dtype)


class Names:
    """The names in use in a model, over all graphs, because an inner graph sees the names of the outer ones."""

    def __init__(self, model: ir.Model) -> None:
        nodes = [*model.graph.all_nodes(), *(node for f in model.functions.values() for node in f.all_nodes())]
        self._values: set[str] = {
            str(v.name) for graph in model.graphs() for v in (*graph.inputs, *graph.initializers.values())
        }
        self._values |= {str(value.name) for function in model.functions.values() for value in function.inputs}
        self._values |= {str(value.name) for node in nodes for value in node.outputs}
        self._nodes: set[str] = {str(node.name) for node in nodes}
        # Base -> first suffix not tried yet, so that a base in use a thousand times is not searched from the start.
        self._next: Counter[tuple[int, str]] = Counter()

    def value(self, name: str) -> str:
        """Return an unused name for a value: this one, or this one with a number."""
        return self._free(name, self._values)

    def node(self, name: str) -> str:
        """Return an unused name for a node: this one, or this one with a number."""
        return self._free(name, self._nodes)

    def _free(self, name: str, taken: set[str]) -> str:
        start = self._next[id(taken), name]
        free, self._next[id(taken), name] = _taken_from(name, taken, start)
        return free


def free_name(name: str, taken: set[str]) -> str:
    """Return an unused name, this one or this one with a number, and add it to ``taken``."""
    return _taken_from(name, taken, 0)[0]


def _taken_from(name: str, taken: set[str], start: int) -> tuple[str, int]:
    """Take the first unused name with a suffix from ``start`` on, none for 0. Return it and the next suffix."""
    number = next(number for number in count(start) if _numbered(name, number) not in taken)
    taken.add(_numbered(name, number))
    return _numbered(name, number), number + 1


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name
