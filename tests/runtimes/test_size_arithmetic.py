"""Which nodes compute with sizes alone: what follows a Shape in integers, and nothing that reads a number."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.runtimes.size_arithmetic import nodes_on_sizes
from tests.fusion.graphs import model

CONSTANTS = "int64[1] one = {1}, int64[1] zero = {0}, float[1] half = {0.5}, int64[1] last = {8}"


def found(body: str, *, outputs: str = "float[batch,seq,8] y", inputs: str = "float[batch,seq,8] x") -> set[str]:
    of = model(body, CONSTANTS, inputs=inputs, outputs=outputs)
    for node in of.graph.all_nodes():
        node.name = f"node of {node.outputs[0].name}"
    return {name.removeprefix("node of ") for _, name in nodes_on_sizes(of)}


def test_the_shape_to_go_back_to() -> None:
    body = """r = Relu(x) s = Shape(x) b = Gather(s, zero) n = Mul(b, one) c = Concat <axis = 0> (n, one, last)
              f = Cast <to = 7> (c) y = Reshape(r, f)"""
    assert found(body) == {"s", "b", "n", "c", "f"}


def test_a_constant_node_counts_as_a_constant() -> None:
    assert found("s = Shape(x) k = Constant <value_ints = [0]> () b = Gather(s, k) y = Expand(x, b)") == {"s", "b"}


@pytest.mark.parametrize(
    "body",
    [
        "s = Shape(x) z = Cast <to = 1> (s) y = Mul(x, z)",  # a number to compute with
        "s = Shape(x) z = ConstantOfShape(s) y = Add(x, z)",  # as much as there is of the data
        "s = Shape(x) i = Cast <to = 7> (x) z = Gather(s, i) y = Cast <to = 1> (z)",  # the data choose
        "s = Shape(x) y = Reshape(x, s)",
        "s = Shape(x) z = com.microsoft.Gelu(s) y = Expand(x, z)",
    ],
)
def test_nothing_else_does(body: str) -> None:
    assert found(body) == {"s"}


def test_an_input_of_integers_is_data() -> None:
    inputs = "float[batch,seq,8] x, int64[1] i"
    assert found("s = Shape(x) b = Gather(s, i) y = Expand(x, b)", inputs=inputs) == {"s"}


def test_constants_without_a_size_are_no_sizes() -> None:
    assert found("c = Concat <axis = 0> (one, one, last) y = Expand(x, c)") == set()


@pytest.mark.parametrize("names", [("", "", ""), ("n", "n", "m")])
def test_a_node_that_its_name_does_not_tell_is_left_out(names: tuple[str, str, str]) -> None:
    of = model("s = Shape(x) c = Gather(s, one) y = Expand(x, c)", CONSTANTS)
    for node, name in zip(of.graph, names, strict=True):
        node.name = name
    assert nodes_on_sizes(of) == frozenset()


def test_a_name_that_a_subgraph_has_too_is_left_out() -> None:
    branch = "then_branch = t () => (float[batch,seq,8] a) {a = Neg(x)}, else_branch = e () => (float b) {b = Exp(x)}"
    of = model(f"s = Shape(x) y = If (c) <{branch}>", CONSTANTS, inputs="float[batch,seq,8] x, bool c")
    for node in of.graph.all_nodes():
        node.name = "n"
    of.graph[1].name = "m"
    assert nodes_on_sizes(of) == frozenset()
    assert isinstance(of.graph[0], ir.Node)
