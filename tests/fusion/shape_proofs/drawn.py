"""Draws graphs of operators that move, cut, join and broadcast, with sizes on their way from Shape to Reshape."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 20
INPUTS = {"x": ("a", "b", 4), "y": ("b", "a"), "z": (1, "a", 4), "w": ("c",), "v": ("a", 1, "b")}
EQUATIONS = (
    ("bsd,bsd->bs", ("x", "z")),
    ("bsd,bsd->bsd", ("z", "x")),
    ("bsd->bds", ("x",)),
    ("ij,kjd->ikd", ("y", "z")),
    ("abc,ab->a", ("x", "y")),
    ("abc,dbe->acde", ("v", "x")),
)


@dataclass
class Drawing:
    """A graph on its way.

    Attributes:
        rng: Draws.
        floats: Names of values with numbers.
        shapes: Names of one-dimensional values of int64.
    """

    rng: np.random.Generator
    floats: list[str] = field(default_factory=lambda: list(INPUTS))
    shapes: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=lambda: {name: len(dims) for name, dims in INPUTS.items()})
    _names: count[int] = field(default_factory=count)

    def add(self, operator: str, *inputs: str, outputs: int = 1, to: list[str] | None = None, **attributes: Any) -> str:
        """Add a node; ``to`` is the list of values that its results join."""
        names = [f"n{next(self._names)}" for _ in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        (self.floats if to is None else to).extend(names)
        return names[0]

    def ints(self, *numbers: int) -> str:
        """Add a constant of integers."""
        return self.constant(np.asarray(numbers, np.int64))

    def constant(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        """Add a constant, as an initializer or a node."""
        name = f"c{next(self._names)}"
        tensor = onnx.numpy_helper.from_array(array, name)
        if self.rng.random() < 0.5:
            self.constants.append(tensor)
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def one(self) -> str:
        """Return a value of numbers, a late one more often."""
        return self.floats[-1 - min(int(self.rng.exponential(3)), len(self.floats) - 1)]

    def shape(self) -> str:
        """Return sizes: a Shape, a part of one, or several joined."""
        kind = self.rng.integers(5)
        if kind == 0 or not self.shapes:
            return self.add("Shape", self.one(), to=self.shapes)
        if kind == 1:
            at = self.ints(int(self.rng.integers(-3, 3)))
            return self.add("Gather", self.pick(self.shapes), at, to=self.shapes)
        if kind == 2:
            parts = [self.pick(self.shapes) for _ in range(2)]
            numbers = [self.ints(int(self.rng.choice([-1, 0, 1, 2, 4]))) for _ in range(int(self.rng.integers(2)))]
            parts = [parts[index] for index in range(int(self.rng.integers(1, 3)))] + numbers
            self.rng.shuffle(parts)
            return self.add("Concat", *parts, axis=0, to=self.shapes)
        if kind == 3:
            bounds = [self.ints(int(self.rng.integers(-3, 4))) for _ in range(2)]
            return self.add("Slice", self.pick(self.shapes), *bounds, self.ints(0), to=self.shapes)
        return self.add(
            str(self.rng.choice(["Mul", "Add", "Sub", "Div", "Max", "Min"])),
            self.pick(self.shapes),
            self.ints(int(self.rng.choice([1, 2, 4, -1]))),
            to=self.shapes,
        )

    def pick(self, names: list[str]) -> str:
        return names[int(self.rng.integers(len(names)))]

    def step(self) -> None:
        """Add an operator, with what it needs."""
        steps = (
            self._cut,
            self._squeeze,
            self._split,
            self._reshape,
            self._broadcast,
            self._join,
            self._einsum,
            self._reduce,
            self._turn,
            self._grow,
            self._gather,
            self._product,
            self._norm,
            self._branch,
            self._range,
            self._convolve,
            self._transform,
        )
        steps[int(self.rng.integers(len(steps)))]()

    def _cut(self) -> None:
        if self.rng.random() < 0.4:
            end = int(self.rng.choice([-1, 1, 2, 5, 2**31 - 1, 2**63 - 1, -(2**63)]))
            bounds = [self.ints(int(self.rng.integers(-4, 5))), self.ints(end)]
        elif self.rng.random() < 0.5:
            bounds = [self.ints(0), self._single()]
        else:
            bounds = [self._single(), self._single()]
        axis = self.ints(int(self.rng.integers(-2, 2)))
        step = [self.ints(int(self.rng.choice([1, 2, -1])))] if self.rng.random() < 0.3 else []
        self.add("Slice", self.one(), *bounds, axis, *step)

    def _single(self) -> str:
        return self.add("Gather", self.shape(), self.ints(int(self.rng.integers(-1, 1))), to=self.shapes)

    def _squeeze(self) -> None:
        kind = self.rng.integers(3)
        axes = self.ints(int(self.rng.integers(-3, 3)))
        if kind == 0:
            self.add("Squeeze", self.one())
        else:
            self.add("Squeeze" if kind == 1 else "Unsqueeze", self.one(), axes)

    def _split(self) -> None:
        parts = int(self.rng.integers(2, 4))
        axis = int(self.rng.integers(-2, 2))
        if self.rng.random() < 0.6:
            self.add("Split", self.one(), outputs=parts, num_outputs=parts, axis=axis)
        else:
            self.add("Split", self.one(), self.ints(1, 3), outputs=2, axis=-1)

    def _reshape(self) -> None:
        if self.rng.random() < 0.3:
            target = self.ints(*map(int, self.rng.choice([-1, 0, 0, 1, 2, 4], int(self.rng.integers(1, 4)))))
        else:
            target = self.shape()
        if self.rng.random() < 0.2:
            self.add("Flatten", self.one(), axis=int(self.rng.integers(-1, 3)))
        elif self.rng.random() < 0.2:
            self.add("Reshape", self.one(), self.add("Shape", self.one(), to=self.shapes))
        else:
            self.add("Reshape", self.one(), target, allowzero=int(self.rng.random() < 0.3))

    def _broadcast(self) -> None:
        if self.rng.random() < 0.3:
            self.add("Expand", self.one(), self.shape())
        elif self.rng.random() < 0.3:
            condition = self.add("Less", self.one(), self.one(), to=[])
            self.add("Where", condition, self.one(), self.one())
        else:
            self.add(str(self.rng.choice(["Add", "Mul", "Sum", "Max"])), self.one(), self.one())

    def _join(self) -> None:
        # Of one rank at all sizes, of which it has the axis: ONNX Runtime ends the process otherwise.
        first = self.one()
        rank = self.ranks.get(first, 0)
        if self.rng.random() < 0.5:
            self.add("Concat", "x", "z", axis=int(self.rng.integers(-3, 3)))
        elif rank:
            self.add("Concat", first, self.add("Relu", first), axis=-1)

    def _einsum(self) -> None:
        # Of inputs alone: ONNX Runtime ends the process where a rank is not that of the equation.
        equation, inputs = EQUATIONS[int(self.rng.integers(len(EQUATIONS)))]
        self.add("Einsum", *inputs, equation=equation)

    def _reduce(self) -> None:
        keep = int(self.rng.random() < 0.5)
        if self.rng.random() < 0.3:
            self.add("ReduceMax", self.one(), keepdims=keep)
        else:
            self.add("ReduceSum", self.one(), self.ints(int(self.rng.integers(-2, 2))), keepdims=keep)

    def _turn(self) -> None:
        if self.rng.random() < 0.5:
            self.add("Transpose", self.one())
        else:
            self.add("Transpose", self.one(), perm=list(map(int, self.rng.permutation(int(self.rng.integers(2, 4))))))

    def _grow(self) -> None:
        if self.rng.random() < 0.5:
            self.add("Tile", self.one(), self.shape() if self.rng.random() < 0.5 else self.ints(1, 2, 1))
        else:
            self.add("Pad", self.one(), self.ints(0, 1, 1, int(self.rng.integers(-1, 2))))

    def _gather(self) -> None:
        indices = self.ints(*map(int, self.rng.integers(-1, 1, int(self.rng.integers(1, 3)))))
        if self.rng.random() < 0.5:
            indices = self.constant(np.asarray(0, np.int64))
        self.add("Gather", self.one(), indices, axis=int(self.rng.integers(-1, 2)))

    def _product(self) -> None:
        weight = self.constant(np.ones((4, int(self.rng.choice([1, 3, 4]))), np.float32))
        self.add("MatMul", self.one(), weight if self.rng.random() < 0.7 else self.one())

    def _convolve(self) -> None:
        kernel, stride, pad = (int(self.rng.integers(low, high)) for low, high in ((1, 4), (1, 4), (0, 2)))
        weight = self.constant(np.ones((1, 1, kernel), np.float32))
        x = "v" if self.rng.random() < 0.3 else self.add("Unsqueeze", "y", self.ints(1))
        for _ in range(int(self.rng.integers(1, 3))):
            x = self.add("Conv", x, weight, strides=[stride], pads=[pad, pad])

    def _transform(self) -> None:
        pairs = self.add("Unsqueeze", self.one(), self.ints(-1))
        axis = self.constant(np.asarray(int(self.rng.integers(-3, 2)), np.int64))
        self.add("DFT", pairs, "", axis, onesided=int(self.rng.random() < 0.5))

    def _norm(self) -> None:
        self.add(str(self.rng.choice(["Relu", "Softmax", "Identity", "Sigmoid"])), self.one())

    def _range(self) -> None:
        limit = self.add("Squeeze", self._single(), to=[])
        numbers = [self.constant(np.asarray(each, np.int64)) for each in (0, 1)]
        ranged = self.add("Range", numbers[0], limit, numbers[1], to=[])
        self.add("Cast", ranged)
        self.nodes[-1].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))

    def _branch(self) -> None:
        yes, no = (self._body(kind) for kind in self.rng.choice(["Squeeze", "Relu", "Transpose", "Slice"], 2))
        condition = self.constant(np.asarray(self.rng.random() < 0.5))
        # A condition that is no constant for the runtime, nor for a reader of the graph.
        total = self.add("ReduceSum", "w", keepdims=0, to=[])
        hidden = self.add("Greater", total, self.constant(np.asarray(-1.0, np.float32)), to=[])
        both = self.add("And", condition, hidden, to=[])
        self.add("If", both, then_branch=yes, else_branch=no)

    def _body(self, operator: str) -> onnx.GraphProto:
        name = f"b{next(self._names)}"
        source = self.one()
        nodes = []
        if operator == "Slice":
            bounds = [helper.make_node("Constant", [], [f"{name}{k}"], value_ints=[k]) for k in (1, 3)]
            nodes = [*bounds, helper.make_node("Slice", [source, f"{name}1", f"{name}3"], [name])]
        else:
            nodes = [helper.make_node(operator, [source], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    def model(self) -> onnx.ModelProto:
        """Return the graph with every value of its own as an output."""
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in INPUTS.items()]
        outputs = [onnx.ValueInfoProto(name=name) for node in self.nodes for name in node.output]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
