"""What a graph says of its inputs and outputs is held against what was promised."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.exporter.tensor_spec import parse_inputs
from ffn_export.parity import interface

SPECS = parse_inputs({"ids": "int64[batch,seq]", "mask": "int64[batch,seq]"})


def of(ids: list[str | int | None], mask: list[str | int | None]) -> tuple[str, ...]:
    inputs = [
        ir.Value(name=name, shape=ir.Shape(axes), type=ir.TensorType(ir.DataType.INT64))
        for name, axes in (("ids", ids), ("mask", mask))
    ]
    graph = ir.Graph(inputs, [], nodes=[], opset_imports={"": 20})
    return interface.differences(ir.Model(graph, ir_version=10), SPECS, None)


@pytest.mark.parametrize(
    "axes",
    [["batch", "seq"], ["N", "T"], ["s0", "s1"], [None, None], ["seq_length", "batch_size"]],
    ids=str,
)
def test_axes_may_be_called_anything(axes: list[str | int | None]) -> None:
    assert of(axes, axes) == ()


def test_each_input_may_call_them_differently() -> None:
    assert of(["batch", "seq"], ["batch_1", "seq_1"]) == ()


def test_axes_are_not_called_crosswise() -> None:
    first, second = of(["seq", "batch"], ["seq", "batch"])
    assert first == "the graph calls axis 'batch' 'seq', which is the name of another"
    assert second == "the graph calls axis 'seq' 'batch', which is the name of another"


def test_two_axes_do_not_share_a_symbol() -> None:
    assert of(["n", "n"], ["n", "m"]) == ("the graph has one symbol, 'n', for the axes 'batch' and 'seq'",)


def test_a_size_has_no_symbol() -> None:
    fixed = of([4, 4], [4, 4])
    assert len(fixed) == 4
    assert all("is fixed to 4" in line for line in fixed)
