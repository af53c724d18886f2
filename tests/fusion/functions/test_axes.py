"""Axes are followed through nodes that move numbers, and through nothing else."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.functions.axes import Axes, Factor, behind
from ffn_export.fusion.inference import prove_shapes
from tests.fusion.graphs import model

SEQ, BATCH, PARTS, HEADS, SIZE = (Factor(size) for size in (ir.SymbolicDim("seq"), ir.SymbolicDim("batch"), 3, 4, 8))
ROWS: Axes = ((SEQ,), (BATCH,), (PARTS, HEADS, SIZE))


def followed(body: str, constants: str, axes: Axes = ROWS) -> tuple[Axes | None, list[int]]:
    """Follow axes from the input ``x`` to the output ``y``, and return the numbers of the parts that are taken."""
    of = model(body, constants, inputs="float[seq,batch,96] x", outputs="float y")
    of.graph.outputs[0].shape = None
    prove_shapes(of)
    taken: list[int] = []
    for node in of.graph:
        if node.op_type == "Constant":
            continue
        output = of.graph.outputs[0] if of.graph.outputs[0] in node.outputs else node.outputs[0]
        moved = behind(node, output, axes)
        if moved is None:
            return None, taken
        axes = moved.axes
        taken += [] if moved.taken is None else [moved.taken[1]]
    return axes, taken


@pytest.mark.parametrize(
    ("body", "expected", "parts"),
    [
        ("y = Reshape(x, apart)", ((SEQ,), (BATCH,), (PARTS,), (HEADS, SIZE)), []),
        ("y = Reshape(x, joined)", ((SEQ,), (BATCH, PARTS, HEADS), (SIZE,)), []),
        ("y = Flatten<axis = 2>(x)", ((SEQ, BATCH), (PARTS, HEADS, SIZE)), []),
        ("r = Reshape(x, joined) y = Transpose<perm = [1, 0, 2]>(r)", ((BATCH, PARTS, HEADS), (SEQ,), (SIZE,)), []),
        ("y = Transpose(x)", ((PARTS, HEADS, SIZE), (BATCH,), (SEQ,)), []),
        ("r = Reshape(x, apart) y = Unsqueeze(r, first)", ((), (SEQ,), (BATCH,), (PARTS,), (HEADS, SIZE)), []),
        ("r = Reshape(x, apart) y = Gather<axis = 2>(r, second)", ((SEQ,), (BATCH,), (HEADS, SIZE)), [1]),
        ("r = Reshape(x, apart) y = Gather<axis = -2>(r, back)", ((SEQ,), (BATCH,), (), (HEADS, SIZE)), [2]),
        (
            "r = Reshape(x, apart) y, b, c = Split<axis = 2, num_outputs = 3>(r)",
            ((SEQ,), (BATCH,), (), (HEADS, SIZE)),
            [0],
        ),
    ],
)
def test_moves(body: str, expected: Axes, parts: list[int]) -> None:
    constants = """int64[4] apart = {0, 0, 3, 32}, int64[3] joined = {0, -1, 8}, int64[1] first = {0},
        int64 second = {1}, int64[1] back = {-1}"""
    assert followed(body, constants) == (expected, parts)


@pytest.mark.parametrize(
    "body",
    [
        "y = Neg(x)",
        "y = Reshape(x, across)",
        "y = Gather<axis = 2>(x, second)",
        "r = Reshape(x, apart) y = Gather<axis = 2>(r, two)",
        "r = Reshape(x, apart) y = Gather<axis = 0>(r, second)",
        "r = Reshape(x, apart) y, b = Split<axis = 2>(r, uneven)",
    ],
)
def test_what_is_no_move(body: str) -> None:
    constants = """int64[4] apart = {0, 0, 3, 32}, int64[4] across = {0, 0, 2, 48}, int64 second = {1},
        int64[2] two = {0, 1}, int64[2] uneven = {1, 2}"""
    assert followed(body, constants)[0] is None


def test_two_unknown_sizes_are_not_told_apart() -> None:
    of = model("y = Reshape(x, sizes)", inputs="float[seq,batch,96] x, int64[3] sizes", outputs="float[a,b,8] y")
    prove_shapes(of)
    node = of.graph.node(0)
    assert behind(node, node.outputs[0], ROWS) is None
