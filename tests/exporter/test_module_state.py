"""A module is given back as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy

import ffn_export as fx
from ffn_export.errors import ExportError
from tests.exporter.helpers import shapes


def test_lazy_layers_with_buffers_become_what_they_are_to_be() -> None:
    module = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d()).eval()
    assert shapes(fx.export(module, {"input": "float32[n,4]"}).graph.outputs) == {"y": "[n,8]"}
    assert not any(map(is_lazy, module.buffers()))


@pytest.mark.slow
def test_a_refused_module_keeps_its_buffers() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls: torch.Tensor
            self.last: torch.Tensor
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = x.mean() + torch.zeros(3)
            return x + self.calls + self.last

    module = Counts()
    calls, last = module.calls, module.last
    with pytest.raises(ExportError, match="changes buffer"):
        fx.export(module, {"x": "float32[n,3]"})
    assert module.calls is calls
    assert module.last is last
    assert not calls.any()
