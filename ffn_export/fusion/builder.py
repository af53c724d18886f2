"""Builds the nodes that a rule writes: ``op.Gelu(x, approximate="tanh")``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from ffn_export.core.contiguous import contiguous


class Builder:
    """Collects nodes and constants; every name is new in the whole model.

    Attributes:
        nodes: The nodes, in the order they were written.
        constants: The constants, to be registered as initialisers.
    """

    def __init__(self) -> None:
        self._tape = Tape()
        self.constants: list[ir.Value] = []

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """The nodes that were written."""
        return tuple(self._tape.nodes)

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        """Return the function that writes a node of an operator and returns its output, or its outputs."""

        def write(*inputs: ir.Value | None, _domain: str = "", _outputs: int = 1, **attributes: Any) -> Any:
            if _outputs == 1:
                return self._tape.op(operator, inputs, attributes, domain=_domain)
            return self._tape.op_multi_out(operator, inputs, attributes, domain=_domain, num_outputs=_outputs)

        return write

    def constant(self, array: np.ndarray[Any, Any], dtype: ir.DataType | None = None) -> ir.Value:
        """Write a constant, stored as the exporter stores its own."""
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), dtype=dtype)  # NumPy makes a number a row
        value = ir.Value(type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor)
        self.constants.append(value)
        return value

    def computed(self, compute: Callable[[], Any], dtype: ir.DataType, shape: Sequence[int]) -> ir.Value:
        """Write a large constant that is computed each time it is read, so that no rule holds a copy of a weight."""
        tensor = ir.LazyTensor(lambda: ir.tensor(contiguous(compute()), dtype=dtype), dtype, ir.Shape(shape))
        value = ir.Value(type=ir.TensorType(dtype), shape=ir.Shape(shape), const_value=tensor)
        self.constants.append(value)
        return value

    def discard(self) -> None:
        """Let go of all inputs, so that nothing in the graph is read by what was written."""
        for node in self.nodes:
            for place in range(len(node.inputs)):
                node.replace_input_with(place, None)

    def like(self, node: ir.Node, *inputs: ir.Value | None, outputs: int = 1, **changed: Any) -> Any:
        """Write a node again with other inputs, and other values of some attributes."""
        attributes = {name: attribute.value for name, attribute in node.attributes.items()} | changed
        return getattr(self, node.op_type)(*inputs, _domain=node.domain, _outputs=outputs, **attributes)


class Names:
    """The names in use in a model, over all its graphs: an inner graph sees those of the outer ones."""

    def __init__(self, model: ir.Model) -> None:
        graphs = (model.graph, *model.graph.subgraphs())
        nodes = [*model.graph.all_nodes(), *(node for f in model.functions.values() for node in f.all_nodes())]
        self._values: set[str] = {
            str(v.name) for graph in graphs for v in (*graph.inputs, *graph.initializers.values())
        }
        self._values |= {str(value.name) for function in model.functions.values() for value in function.inputs}
        self._values |= {str(value.name) for node in nodes for value in node.outputs}
        self._nodes: set[str] = {str(node.name) for node in nodes}
        # Base -> the first number behind it that nobody asked for: what has one name a thousand times is many.
        self._next: Counter[tuple[int, str]] = Counter()

    def value(self, name: str) -> str:
        """Return a name for a value: this one, or one like it that is free."""
        return self._free(name, self._values)

    def node(self, name: str) -> str:
        """Return a name for a node: this one, or one like it that is free."""
        return self._free(name, self._nodes)

    def _free(self, name: str, taken: set[str]) -> str:
        start = self._next[id(taken), name]
        free, self._next[id(taken), name] = _taken_from(name, taken, start)
        return free


def free_name(name: str, taken: set[str]) -> str:
    """Return a name, or one like it, that is not taken, and take it."""
    return _taken_from(name, taken, 0)[0]


def _taken_from(name: str, taken: set[str], start: int) -> tuple[str, int]:
    """Take a name with a number from ``start`` on behind it, none for 0; return it and the number after that."""
    number = next(number for number in count(start) if _numbered(name, number) not in taken)
    taken.add(_numbered(name, number))
    return _numbered(name, number), number + 1


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name
