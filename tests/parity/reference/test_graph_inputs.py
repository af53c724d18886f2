"""What a graph says of its inputs, where there is no spec of the module that it was exported from."""

from __future__ import annotations

from pathlib import Path

import pytest

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.errors import UsageError
from ffn_export.parity.reference.references import graph_inputs
from tests.fusion.graphs import model

BODY = "e = Gather(table, ids) m = Cast<to = 1>(attention_mask) y = Mul(e, m) z = Neg(n)"
INPUTS = "int64[batch,seq] ids, int64[batch,seq] attention_mask, int32[2] n, float[batch,?] x"


def test_integers_are_within_what_they_index_and_masks_are_masks() -> None:
    of = model(BODY, "float[5] table = {0,0,0,0,0}", inputs=INPUTS, outputs="float[batch,seq] y, int32[2] z")
    both = (Dim("batch"), Dim("seq"))
    assert graph_inputs(of) == (
        TensorSpec("ids", "int64", both, (0, 4)),
        TensorSpec("attention_mask", "int64", both, (0, 1), is_mask=True),
        TensorSpec("n", "int32", (2,), (0, 1)),
        TensorSpec("x", "float32", (Dim("batch"), Dim("x_1"))),
    )


def test_what_the_caller_says_takes_the_place_of_what_the_graph_says() -> None:
    of = model("y = Relu(x) z = Neg(n)", inputs="float[] x, float[batch] n", outputs="float[] y, float[batch] z")
    rows = TensorSpec("x", "float32", (Dim("batch"), 16))
    assert graph_inputs(of, {"x": "float32[batch,16]"}) == (rows, TensorSpec("n", "float32", (Dim("batch"),)))
    with pytest.raises(UsageError, match="'x' of the model has no dtype or no rank: export it with both, or name it"):
        graph_inputs(of)
    with pytest.raises(UsageError, match="the model has no input 'm'; it has x, n"):
        graph_inputs(of, {"m": "float32[batch]"})


def test_a_graph_of_unknown_rank_is_verified_at_the_sizes_that_are_said(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_file.save(model("y = Relu(x)", inputs="float[] x", outputs="float[] y"), path)
    result = fx.verify(path, str(path), inputs={"x": "float32[batch,seq,16]"}, runtimes=["ort-cpu"])
    assert {tuple(case.sizes) for case in result.cases} == {("batch", "seq")}
    assert not any(case.skipped or case.error for case in result.cases)
