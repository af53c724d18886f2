"""What a graph says of its inputs and outputs is held against what was promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.parity.checks import interface

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


@pytest.mark.parametrize(
    ("axes", "line"),
    [
        (["N", "T", 8], None),
        ([None, "other", 8], None),
        ([3, "T", 8], "axis 0 of output 'y' is fixed to 3, and has the size 2"),
        (["T", "N", 8], "axis 0 of output 'y' is called 'T', of which there are 5, and has the size 2"),
        (["N", "T", 8, 1], "output 'y' has rank 4, expected 3"),
    ],
    ids=str,
)
def test_what_is_declared_of_an_output_holds_of_a_run(axes: list[str | int | None], line: str | None) -> None:
    tensor = ir.TensorType(ir.DataType.FLOAT)
    x = ir.Value(name="x", shape=ir.Shape(["N", "T", 8]), type=tensor)
    y = ir.Value(name="y", shape=ir.Shape(axes), type=tensor)
    model = ir.Model(ir.Graph([x], [y], nodes=[], opset_imports={"": 20}), ir_version=10)
    array = np.zeros((2, 5, 8), np.float32)
    found = [*interface.output_differences(model, {"x": array}, {"y": array}).values()]
    assert found[:1] == ([] if line is None else [line])


@pytest.mark.slow
def test_a_file_that_the_checker_rejects_fails_though_a_slow_judge_takes_it(tmp_path: Path) -> None:
    model = fx.export("d2l-ffn", opset=20)
    proto = ir.to_proto(model)
    proto.graph.node[-1].attribute.extend([onnx.helper.make_attribute("no_such", 1)] * 2)
    onnx.save(proto, tmp_path / "m.onnx")
    result = fx.verify(tmp_path / "m.onnx", "d2l-ffn")
    assert any("the ONNX checker rejects the model" in failure for failure in result.failures)
