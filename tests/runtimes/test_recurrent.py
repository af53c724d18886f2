"""A kernel of ONNX Runtime that would end the process is not run on what ends it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ffn_export as fx


class Recurrent(torch.nn.Module):
    """A GRU over a few steps."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.gru(x)[0]
        return y


@pytest.mark.slow
def test_an_empty_batch_is_skipped_with_the_reason(tmp_path: Path) -> None:
    module, inputs = Recurrent(), {"x": "float32[batch,5,8]"}
    result = fx.verify(fx.export(module, inputs), against=module, inputs=inputs, runtimes=["ort-cpu"])
    skipped = {case.case: case.skipped for case in result.cases if case.skipped is not None}
    assert list(skipped) == ["batch=0 normal"]
    assert "GRU may end the whole process" in str(skipped["batch=0 normal"])
    assert any(case.values == "normal" and case.outputs for case in result.cases)
