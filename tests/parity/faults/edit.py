"""Editing a graph: find nodes and weights, put nodes behind a value, change initializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, np.dtype[Any]]


class Editor:
    """Writes nodes into a model: ``edit.Mul(x, edit.number(2))``."""

    def __init__(self, model: ir.Model) -> None:
        self.graph = model.graph

    def __getattr__(self, operator: str) -> Callable[..., ir.Value]:
        def write(*inputs: ir.Value | None, domain: str = "", **attributes: Any) -> ir.Value:
            return self.node(operator, *inputs, domain=domain, **attributes).outputs[0]

        return write

    def node(
        self, operator: str, *inputs: ir.Value | None, domain: str = "", outputs: int = 1, **attributes: Any
    ) -> ir.Node:
        """Append a node to the graph."""
        node = ir.node(operator, list(inputs), attributes, domain=domain, num_outputs=outputs)
        for index, output in enumerate(node.outputs):
            output.name = f"planted_{len(self.graph)}_{index}"
        self.graph.append(node)
        return node

    def weight(self, array: Array) -> ir.Value:
        """Add an initializer."""
        names = (f"planted_weight_{number}" for number in count())
        name = next(name for name in names if name not in self.graph.initializers)
        value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
        self.graph.register_initializer(value)
        return value

    def number(self, number: float, *more: float) -> ir.Value:
        """Add a float32 scalar, or a vector of several."""
        return self.weight(np.array([number, *more] if more else number, np.float32))

    def whole(self, *numbers: int) -> ir.Value:
        """Add a vector of int64."""
        return self.weight(np.array(numbers, np.int64))

    def size(self, value: ir.Value, axis: int) -> ir.Value:
        """Write the size of an axis, a vector of one."""
        return self.Shape(value, start=axis, **({"end": axis + 1} if axis != -1 else {}))


Change = Callable[[Editor, ir.Value], ir.Value]


def behind(model: ir.Model, value: ir.Value, change: Change) -> None:
    """Let everyone who reads a value read what ``change`` makes of it instead."""
    uses = value.uses()
    edit = Editor(model)
    changed = change(edit, value)
    for reader, index in uses:
        reader.replace_input_with(index, changed)
    for index, output in enumerate(model.graph.outputs):
        if output is value:
            name, value.name = value.name, f"{value.name}_before"
            changed.name, changed.shape = name, value.shape
            changed.type = changed.type or value.type
            model.graph.outputs[index] = changed
    model.graph.sort()


def replaced(model: ir.Model, node: ir.Node, change: Callable[[Editor, Sequence[ir.Value]], ir.Value]) -> None:
    """Let ``change`` compute from a node's inputs what the node did; the node stays, unread."""
    inputs = [value for value in node.inputs if value is not None]
    behind(model, node.outputs[0], lambda edit, _: change(edit, inputs))


def nodes_of(model: ir.Model, *operators: str) -> list[ir.Node]:
    """Return the nodes of these operators, in order."""
    found = [node for node in model.graph if node.op_type in operators]
    assert found, f"the graph has no {' or '.join(operators)}: {[node.op_type for node in model.graph]}"
    return found


def node_of(model: ir.Model, *operators: str) -> ir.Node:
    """Return the first of them."""
    return nodes_of(model, *operators)[0]


def reader(node: ir.Node) -> ir.Node:
    """Return the one node that reads another."""
    (use,) = node.outputs[0].uses()
    return use.node


def input_of(model: ir.Model) -> ir.Value:
    """Return the first input of the graph."""
    return model.graph.inputs[0]


def output_of(model: ir.Model) -> ir.Value:
    """Return the first output of the graph."""
    return model.graph.outputs[0]


def array_of(value: ir.Value | None) -> Array:
    """Return the numbers of an initializer."""
    assert value is not None
    assert value.const_value is not None
    return value.const_value.numpy().copy()


def stored(value: ir.Value, array: Array) -> None:
    """Give an initializer other numbers."""
    value.const_value = ir.tensor(array, name=value.name)


def matrices(model: ir.Model) -> list[ir.Value]:
    """Return the weights of matrix products, in the order of the products."""
    weights = (node.inputs[1] for node in nodes_of(model, "MatMul", "Gemm"))
    return [weight for weight in weights if weight is not None and weight.is_initializer()]


def largest(model: ir.Model) -> ir.Value:
    """Return the largest initializer."""
    return max(model.graph.initializers.values(), key=lambda value: value.const_value.size if value.const_value else 0)


def bias_of(node: ir.Node) -> ir.Value:
    """Return the initializer that an Add adds."""
    return next(value for value in node.inputs if value is not None and value.is_initializer())


def biased_sums(model: ir.Model) -> list[ir.Node]:
    """Return the Adds of a bias."""
    return [n for n in nodes_of(model, "Add") if any(v is not None and v.is_initializer() for v in n.inputs)]


def residual_sums(model: ir.Model) -> list[ir.Node]:
    """Return the Adds of two computed values."""
    return [n for n in nodes_of(model, "Add") if not any(v is not None and v.is_initializer() for v in n.inputs)]
