"""Random graphs around the patterns: what transformers are made of, in any spelling, right and nearly right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from hypothesis import strategies as st

from tests.fusion.edges.edge import Edge, edge

Draw = Callable[[st.SearchStrategy[Any]], Any]

OPSETS = (13, 14, 17, 18, 20, 22, 23, 24)
DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT, ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)
_SHAPES = {1: ("",), 2: ("n,", "3,"), 3: ("batch,seq,", "2,3,", "?,seq,", "1,seq,"), 4: ("a,b,c,", "a,2,c,")}


@st.composite
def edges(draw: Draw) -> Edge:
    """Draw a graph."""
    return _Graph(draw).edge()


class _Graph:
    """Writes a graph node by node, each choice drawn."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.opset: int = draw(st.sampled_from(OPSETS))
        self.dtype: ir.DataType = draw(st.sampled_from(DTYPES))
        self.rank: int = draw(st.sampled_from((2, 3, 3, 3, 4, 1)))
        self.d: int = draw(st.sampled_from((8, 4, 1)))
        leading = draw(st.sampled_from(_SHAPES[self.rank]))
        self.shape = f"[{leading}{self.d}]"
        self.inputs = [f"float{self.shape} x"]
        self.constants: list[str] = []
        self.lines: list[str] = []
        self.values = ["x"]  # of the shape of x
        self.extra: list[str] = []
        self.count = 0
        # Half of the graphs are right in every constant and shape, or hardly any norm would be one.
        self.is_careful: bool = draw(st.booleans())

    def edge(self) -> Edge:
        value = "x"
        blocks = (self.activation, self.norm, self.feed_forward, self.residual, self.layout)
        for _ in range(self._draw(st.integers(1, 5))):
            value = self._draw(st.sampled_from(blocks))(value)
            self.values.append(value)
        named = {line.split(" = ")[0].split(",")[0] for line in self.lines if "Exp(" not in line}
        outputs = [value] if value != "x" else [self.node("Neg", "x")]
        candidates = sorted(named - set(outputs))
        if candidates:
            read = self._draw(st.lists(st.sampled_from(candidates), max_size=2, unique=True))
            outputs += [name if self._draw(st.booleans()) else self.node("Abs", name) for name in read]
        found = edge(
            "random",
            "\n".join(self.lines),
            ", ".join(self.constants),
            inputs=", ".join(self.inputs),
            outputs=", ".join(f"float[] {name}" for name in outputs),
            opset=self.opset,
            dtype=self.dtype,
        )
        return replace(found, scale=0.5, runs_empty=not any("keepdims = 0" in line for line in self.lines))

    # What it writes with.

    def pick(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def seldom(self) -> bool:
        return not self.is_careful and bool(self._draw(st.integers(0, 11)) == 0)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def node(self, operator: str, *inputs: str, attributes: str = "") -> str:
        """Write a node; operands of a sum or a product in any order."""
        if operator in ("Add", "Mul") and self._draw(st.booleans()):
            inputs = inputs[::-1]
        name = self.name()
        text = f"<{attributes}>" if attributes else ""
        self.lines.append(f"{name} = {operator}{text}({', '.join(inputs)})")
        return name

    def number(self, value: float) -> str:
        """Write a constant: right or off by a thousandth; of any rank; fixed, or one that a caller may override."""
        value = value * 1.001 if self.seldom() else value
        name = self.name()
        sizes = "" if not self.seldom() else self.pick("[1]", "[1,1]", "[1,1,1,1]")
        self.constants.append(f"float{sizes} {name} = {{{value!r}}}")
        if self.seldom() and self.seldom():
            self.inputs.append(f"float{sizes} {name}")
        return name

    def integers(self, *values: int) -> str:
        name = self.name()
        self.constants.append(f"int64[{len(values)}] {name} = {{{', '.join(map(str, values))}}}")
        return name

    def tensor(self, *sizes: int) -> str:
        name = self.name()
        count = int(np.prod(sizes)) if sizes else 1
        # As large as keeps activations near 1, layer after layer: an error must not grow on its way.
        numbers = (np.random.default_rng(self.count).standard_normal(count) / max(sizes, default=1) ** 0.5).round(
            3
        ) + 0.05
        shape = f"[{','.join(map(str, sizes))}]" if sizes else ""
        self.constants.append(f"float{shape} {name} = {{{', '.join(map(repr, numbers.tolist()))}}}")
        if self.seldom() and self.seldom():
            self.inputs.append(f"float{shape} {name}")
        return name

    def given(self, shape: str) -> str:
        name = self.name()
        self.inputs.append(f"float{shape} {name}")
        return name

    def row(self, width: int) -> str:
        """Write a row in one of its shapes, or what is nearly one."""
        kinds = ("row", "row", "row", "ones", "one", "scalar", "sum", "input", "wide", "column")
        kind = self.pick(*(kinds[:5] if self.is_careful else kinds))
        if kind == "ones":
            return self.tensor(*[1] * self.pick(1, 2, 3), width)
        if kind == "one":
            return self.tensor(*[1] * self.pick(1, 1, 2, 4))
        if kind == "scalar":
            return self.tensor()
        if kind == "sum":
            return self.node("Add", self.tensor(width), self.number(1.0))
        if kind == "input":
            return self.given(f"[{width}]")
        if kind == "wide" and self.rank > 1 and self.seldom():
            return self.tensor(1, *[1] * self.rank, width)
        if kind == "column" and self.seldom():
            return self.tensor(width, 1)
        return self.tensor(width)

    # The parts of a transformer.

    def layout(self, x: str) -> str:
        kind = self.pick("identity", "cast", "through half", "dropout", "transposed", "rows", "unsqueezed")
        if kind == "identity":
            return self.node("Identity", x)
        if kind == "cast" and self.dtype != ir.DataType.BFLOAT16:
            return self.node("Cast", x, attributes=f"to = {self.dtype.value}")
        if kind == "through half":
            there = self.node("Cast", x, attributes=f"to = {self.pick(10, 1, 11)}")
            return self.node("Cast", there, attributes=f"to = {self.dtype.value}")
        if kind == "dropout":
            return self.node("Dropout", x)
        if kind == "transposed" and self.rank == 3:
            perm = self.pick("[0, 2, 1]", "[1, 0, 2]")
            between = self.activation(self.node("Transpose", x, attributes=f"perm = {perm}"), simple=True)
            return self.node("Transpose", between, attributes=f"perm = {perm}")
        if kind == "rows" and self.rank > 1:
            rows = self.node("Reshape", x, self.integers(-1, self.d))
            inner = self.activation(rows, simple=True) if self._draw(st.booleans()) else rows
            return self.node("Reshape", inner, self.node("Shape", x))
        front = self.integers(0)
        return self.node("Squeeze", self.node("Unsqueeze", x, front), front)

    def residual(self, x: str) -> str:
        kinds = ("value", "value", "input", "input", "row", "broadcast", "itself", "minus")
        kind = self.pick(*(kinds[:4] if self.is_careful else kinds))
        if kind == "itself":
            total = self.node("Add", x, x)
        elif kind == "minus":
            total = self.node("Sub", x, self.pick(*self.values))
        elif kind == "input":
            total = self.node("Add", x, self.given(self.shape))
        elif kind == "broadcast" and self.rank == 3:
            total = self.node(
                "Add", x, self.given(self.pick(f"[1,seq,{self.d}]", f"[{self.d}]", "", f"[1,1,{self.d}]"))
            )
        elif kind == "row":
            total = self.node("Add", x, self.row(self.d))
        else:
            total = self.node("Add", x, self.pick(*self.values))
        return self.norm(total) if self.pick(True, True, False) else total

    def linear(self, x: str, d_in: int, d_out: int) -> str:
        kind = self.pick("plain", "plain", "transposed", "identity", "batched", "input", "gemm", "gemm", "reshaped")
        if kind == "gemm" and self.rank == 2:
            turned = self._draw(st.booleans())
            weight = self.tensor(d_out, d_in) if turned else self.tensor(d_in, d_out)
            given = [weight, *([self.tensor(d_out)] if self._draw(st.booleans()) else [])]
            attributes = (
                f"transB = {int(turned)}"
                + (", alpha = 0.5" if self.seldom() else "")
                + (", beta = 2.0" if self.seldom() else "")
            )
            product = self.node("Gemm", x, *given, attributes=attributes)
            if len(given) == 2:
                return product
        else:
            if kind == "transposed":
                weight = self.node("Transpose", self.tensor(d_out, d_in), attributes="perm = [1, 0]")
            elif kind == "reshaped":
                weight = self.node("Reshape", self.tensor(d_in * d_out), self.integers(d_in, d_out))
            elif kind == "batched" and self.rank > 2:
                weight = self.tensor(1, d_in, d_out)
            elif kind == "input":
                weight = self.given(f"[{d_in},{d_out}]")
            else:
                weight = self.tensor(d_in, d_out)
                weight = self.node("Identity", weight) if kind == "identity" else weight
            product = self.node("MatMul", x, weight)
        if self.seldom():
            product = self.node("Identity", product)
        return product if self.pick(True, False, False) else self.node("Add", product, self.row(d_out))

    def feed_forward(self, x: str) -> str:
        kind, width = self.pick("plain", "plain", "gated", "packed"), self.pick(6, 16)
        if kind == "plain":
            hidden = self.activation(self.linear(x, self.d, width))
        elif kind == "gated":
            gate, up = self.linear(x, self.d, width), self.linear(x, self.d, width)
            hidden = self.node("Mul", self.activation(gate) if not self.seldom() else gate, up)
        else:
            packed = self.linear(x, self.d, 2 * width)
            halves = [self.name(), self.name()]
            if self.opset >= 18 and self._draw(st.booleans()):
                split = f"Split<axis = -1, num_outputs = 2>({packed})"
            else:
                split = f"Split<axis = -1>({packed}, {self.integers(width, width)})"
            self.lines.append(f"{halves[0]}, {halves[1]} = {split}")
            first, second = halves[::-1] if self._draw(st.booleans()) else halves
            hidden = self.node("Mul", self.activation(first), second)
        return self.linear(hidden, width, self.d)

    def activation(self, x: str, *, simple: bool = False) -> str:
        operators = [
            "Relu",
            "Tanh",
            "LeakyRelu",
            "Elu",
            *(["Gelu"] if self.opset >= 20 else []),
            *(["Mish"] if self.opset >= 18 else []),
        ]
        if simple or self.pick(True, False, False):
            operator = self.pick(*operators)
            attributes = ""
            if operator == "Gelu":
                attributes = self.pick("", 'approximate = "tanh"', 'approximate = "none"')
            if operator in ("LeakyRelu", "Elu"):
                attributes = self.pick("", "alpha = 0.3")
            return self.node(operator, x, attributes=attributes)
        write = self.pick(self.erf_gelu, self.tanh_gelu, self.swish, self.swish, self.mish, self.squared)
        return str(write(x))

    def erf_gelu(self, x: str) -> str:
        inside = (
            self.node("Div", x, self.number(2**0.5))
            if self._draw(st.booleans())
            else self.node("Mul", x, self.number(0.5**0.5))
        )
        erf = self.node("Erf", inside)
        return self.halved(x, erf)

    def halved(self, x: str, g: str) -> str:
        """Write ``x / 2 * (1 + g)`` in one of its orders."""
        kind = self.pick("x", "gate", "product", "sum", "divided")
        if kind == "sum":
            return self.node("Mul", x, self.node("Add", self.node("Mul", g, self.number(0.5)), self.number(0.5)))
        gate = self.node("Add", g, self.number(1.0))
        if kind == "x":
            return self.node("Mul", self.node("Mul", x, self.number(0.5)), gate)
        if kind == "gate":
            return self.node("Mul", x, self.node("Mul", gate, self.number(0.5)))
        product = self.node("Mul", x, gate)
        return (
            self.node("Div", product, self.number(2.0))
            if kind == "divided"
            else self.node("Mul", product, self.number(0.5))
        )

    def tanh_gelu(self, x: str) -> str:
        if self._draw(st.booleans()):
            cube = self.node("Pow", x, self.number(3.0))
        else:
            cube = self.node("Mul", self.node("Mul", x, x), x)
        inner = self.node("Add", x, self.node("Mul", cube, self.number(0.044715)))
        argument = self.node("Mul", inner, self.number((2 / np.pi) ** 0.5))
        return self.halved(x, self.node("Tanh", argument))

    def swish(self, x: str) -> str:
        argument = x if self._draw(st.booleans()) else self.node("Mul", x, self.number(self.pick(1.702, 1.0, -1.0)))
        if self.seldom():
            argument = self.pick(*self.values) if x in self.values else argument
        if self._draw(st.booleans()):
            return self.node("Mul", x, self.node("Sigmoid", argument))
        exponential = self.node("Exp", self.node("Neg", argument))
        return self.node("Div", x, self.node("Add", exponential, self.number(1.0)))

    def mish(self, x: str) -> str:
        return self.node("Mul", x, self.node("Tanh", self.node("Softplus", x)))

    def squared(self, x: str) -> str:
        positive = self.node("Relu", x)
        return (
            self.node("Mul", positive, positive)
            if self._draw(st.booleans())
            else self.node("Pow", positive, self.number(2.0))
        )

    def norm(self, x: str) -> str:
        operators = [
            *(["LayerNormalization"] if self.opset >= 17 else []),
            *(["RMSNormalization"] if self.opset >= 23 else []),
        ]
        if operators and self._draw(st.booleans()):
            operator = self.pick(*operators)
            given = [self.tensor(self.d) if not self.seldom() else self.tensor(1)]
            if operator == "LayerNormalization" and self._draw(st.booleans()):
                given.append(self.tensor(self.d))
            chosen = [
                self.pick("", "epsilon = 1e-6", "epsilon = 0.1"),
                self.pick("", "axis = -1", f"axis = {self.rank - 1}"),
            ]
            return self.node(operator, x, *given, attributes=", ".join(filter(None, chosen)))
        y = self.quotient(x)
        if not self.seldom():
            y = self.node("Mul", y, self.row(self.d))
        return self.node("Add", y, self.row(self.d)) if self._draw(st.booleans()) else y

    def mean(self, x: str) -> str:
        axis = 0 if self.seldom() else self.pick(-1, -1, self.rank - 1)
        kind = self.pick("mean", "mean", "mean", "sum", "kept")
        if kind == "sum":
            total = self.node("ReduceSum", x, self.integers(axis))
            return self.node("Div", total, self.number(float(self.d if not self.seldom() else self.d + 1)))
        keep = "" if kind == "mean" else "keepdims = 0"
        if self.opset < 18:
            mean = self.node("ReduceMean", x, attributes=", ".join(filter(None, [f"axes = [{axis}]", keep])))
        else:
            mean = self.node("ReduceMean", x, self.integers(axis), attributes=keep)
        return mean if kind == "mean" else self.node("Unsqueeze", mean, self.integers(axis))

    def quotient(self, x: str) -> str:
        """Write ``x / sqrt(mean(x^2) + epsilon)``, with or without the mean taken off first."""
        root = x
        if self._draw(st.booleans()):
            mean = self.mean(x)
            root = self.node("Sub", x, mean)
            again = self.node("Sub", x, mean) if self._draw(st.booleans()) else root
        else:
            again = root
        square = self.node("Mul", root, root) if self._draw(st.booleans()) else self.node("Pow", root, self.number(2.0))
        deviation = self.node("Add", self.mean(square), self.number(self.pick(1e-5, 1e-3, 0.1)))
        kind = self.pick("sqrt", "sqrt", "reciprocal", "power", "over")
        again = self.pick(*self.values) if self.seldom() else again
        if kind == "power":
            return self.node("Mul", again, self.node("Pow", deviation, self.number(-0.5)))
        deviation = self.node("Sqrt", deviation)
        if kind == "reciprocal":
            return self.node("Mul", again, self.node("Reciprocal", deviation))
        if kind == "over":
            return self.node("Mul", again, self.node("Div", self.number(1.0), deviation))
        return self.node("Div", again, deviation)
