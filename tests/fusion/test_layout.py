"""Layout nodes are looked through where they leave the last axis together."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion import layout
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.inference import prove_shapes
from tests.fusion.graphs import model

SHAPES = """int64[2] rows = {-1,8}, int64[3] cut = {2,3,8}, int64[2] other = {-1,4}, int64[1] first = {0},
    int64[1] last = {-1}"""


def seen(body: str, outputs: str = "float[] y") -> layout.Seen:
    of = model(body, SHAPES, inputs="float[2,3,8] x, float[1,3,8] o", outputs=outputs)
    prove_shapes(of)
    value = next(value for node in of.graph for value in node.outputs if value.name == "r")
    return layout.before(value, of.graph)


@pytest.mark.parametrize(
    ("body", "nodes"),
    [
        ("r = Reshape(x, rows) y = Neg(r)", ["Reshape"]),
        ("a = Reshape(x, rows) r = Reshape(a, cut) y = Neg(r)", ["Reshape", "Reshape"]),
        ("r = Identity(x) y = Neg(r)", ["Identity"]),
        ("r = Squeeze(o, first) y = Neg(r)", ["Squeeze"]),
        ("r = Unsqueeze(x, first) y = Neg(r)", ["Unsqueeze"]),
        ("r = Flatten<axis = 2>(x) y = Neg(r)", ["Flatten"]),
        ("r = Cast<to = 1>(x) y = Neg(r)", ["Cast"]),  # to the dtype that it has
        ("a = Transpose<perm = [1,0,2]>(x) r = Identity(a) y = Neg(r)", ["Identity"]),
        ("r = Reshape(x, other) y = Neg(r)", []),  # another last axis
        ("r = Unsqueeze(x, last) y = Neg(r)", []),
        ("r = Flatten(x) y = Neg(r)", []),
        ("r = Cast<to = 10>(x) y = Cast<to = 1>(r)", []),
        ("r = Transpose<perm = [0,2,1]>(x) y = Neg(r)", []),
    ],
)
def test_what_is_looked_through(body: str, nodes: list[str]) -> None:
    found = seen(body)
    assert [node.op_type for node in found.nodes] == nodes
    assert found.is_private


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Identity(x) r = Identity(a) b = Neg(a) c = Neg(r) y = Add(b, c)", "float[] y"),
        ("r = Identity(x) y = Neg(r)", "float[] y, float[2,3,8] r"),
    ],
)
def test_a_value_that_others_read_is_not_private(body: str, outputs: str) -> None:
    assert not seen(body, outputs).is_private


def test_no_more_than_four() -> None:
    body = (
        "v0 = Identity(x) " + " ".join(f"v{i + 1} = Identity(v{i})" for i in range(8)) + " r = Identity(v8) y = Neg(r)"
    )
    assert len(seen(body).nodes) == 4


def test_other_graphs_are_not_read() -> None:
    of = model("y = Identity(x)")
    assert layout.before(of.graph.outputs[0], object()).nodes == ()


def test_written_again_in_their_order() -> None:
    found = seen("a = Reshape(x, rows) r = Unsqueeze(a, first) y = Neg(r)")
    op = Builder()
    layout.again(op, ir.Value(name="v"), found.nodes)
    assert [node.op_type for node in op.nodes] == ["Reshape", "Unsqueeze"]
    assert [str(node.inputs[1].name) for node in op.nodes if node.inputs[1] is not None] == ["rows", "first"]
