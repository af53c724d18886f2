"""Graphs against graphs, where it is the reference that decides what can be compared."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.exporter import onnx_file
from tests.fusion.graphs import model


def patches(weight: float) -> ir.Model:
    """Takes whole patches of 8 tokens, or none at all."""
    return model(
        "r = Reshape(x, sizes) h = Mul(r, w) y = Reshape(h, back)",
        f"int64[4] sizes = {{0, -1, 8, 16}}, int64[3] back = {{0, -1, 16}}, float w = {{{weight}}}",
        inputs="float[batch,seq,16] x", outputs="float[batch,rows,16] y", opset=20,
    )  # fmt: skip


@pytest.mark.parametrize("weight", [2, 3])
def test_a_model_of_which_only_empty_inputs_were_taken_is_not_verified(weight: int, tmp_path: Path) -> None:
    for name, number in (("reference", 2), ("candidate", weight)):
        onnx_file.save(patches(number), tmp_path / f"{name}.onnx")
    files = [tmp_path / f"{name}.onnx" for name in ("candidate", "reference")]
    result = fx.verify(files[0], str(files[1]), runtimes=["ort-cpu"])
    assert result.judged == ("ort-cpu",)
    (failure,) = result.failures
    assert failure.startswith("no output had any finite element to compare, as batch=3,seq=5 normal: ")
