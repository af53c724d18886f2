"""An ONNX model as a reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.parity.reference.references import _distance


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


@pytest.mark.parametrize("fill", [-1e9, -np.inf])
def test_a_wrong_oracle_shows_beside_a_fill(fill: float) -> None:
    truth = np.where(np.arange(8) < 2, fill, np.arange(8.0))
    assert _distance(np.where(np.arange(8) < 2, fill, 0.0).astype(np.float32), truth) == 1.0
    assert _distance(truth.astype(np.float32), truth) == 0.0
