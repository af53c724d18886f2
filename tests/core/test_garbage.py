"""Garbage is looked for less often during an export, and as the caller wants it before and after."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from ffn_export.core.garbage import THRESHOLD, collected_seldom
from ffn_export.errors import ExportError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


class Noted(torch.nn.Module):
    """Notes what the collector was set to while it ran."""

    seen: tuple[int, int, int] = (0, 0, 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = gc.get_threshold()
        return x + 1


def test_it_is_set_while_a_module_is_exported() -> None:
    module = Noted()
    export_source(from_module(module, ["x:float32[batch,3]"]))
    assert module.seen == (THRESHOLD, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_it_is_set_back_when_an_export_fails() -> None:
    with pytest.raises(ExportError):
        export_source(from_module(Noted(), ["x:float32[batch,3]"]), opset=1)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("asked", [0, 10 * THRESHOLD])
def test_who_has_asked_for_less_gets_less(asked: int) -> None:
    gc.set_threshold(asked, 5, 5)
    with collected_seldom():
        assert gc.get_threshold() == (asked, 5, 5)
