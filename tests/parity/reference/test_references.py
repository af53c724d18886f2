"""An ONNX model as a reference."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import ffn_export as fx
from ffn_export.core import onnx_file


class Largest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.layer(x)
        return y, y.argmax(-1)


def test_an_empty_output_of_the_wrong_rank_is_no_reference(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx_file.save(fx.export(Largest().eval(), {"x": "float32[batch,seq,8]"}), path)
    result = fx.verify(path, path, runtimes=["ort-cpu"])
    assert result.passed, result.failures
    skipped = [str(case.skipped) for case in result.cases if 0 in case.sizes.values() and case.skipped]
    assert skipped
    assert all("itself refuses these inputs: ValueError: onnxruntime gives" in reason for reason in skipped)
