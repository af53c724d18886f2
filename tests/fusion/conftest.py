"""Exports are made once: a module's graph is what the fusion of several tests starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir
import pytest

from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import resolve
from ffn_export.modules.presets import PRESETS
from tests.families import USUAL
from tests.fusion.graphs import Array, feeds, run


@dataclass(frozen=True)
class Exported:
    """A preset's graph as torch's exporter wrote it."""

    preset: str
    opset: int
    model: ir.Model

    @cached_property
    def results(self) -> list[Array]:
        """What it gives, run once for the graphs of all targets."""
        return run(self.model, feeds(self.model))


# Of the same structure as a narrower one.
_WIDER = ("numpy-ffn", "transformer-big")
_ALL = [(name, opset) for name in PRESETS for opset in (18, DEFAULT_OPSET, 23)]


def _marks(name: str, opset: int) -> list[pytest.MarkDecorator]:
    """All at one opset in every run; of the others one of each kind, and the rest by `make exhaustive`."""
    if opset == DEFAULT_OPSET:
        return [pytest.mark.exhaustive] if name in _WIDER else []
    return [pytest.mark.slow] if name in USUAL else [pytest.mark.slow, pytest.mark.exhaustive]


EXPORTS = [pytest.param((name, opset), id=f"{name}-{opset}", marks=_marks(name, opset)) for name, opset in _ALL]
# One of each kind at one opset; `make exhaustive` takes the others.
SOME_EXPORTS = [
    pytest.param(
        (name, opset),
        id=f"{name}-{opset}",
        marks=[] if name in USUAL and opset == DEFAULT_OPSET else pytest.mark.exhaustive,
    )
    for name, opset in _ALL
]


# A parametrised session fixture: pytest runs all tests of one export, then lets go of its weights.
@pytest.fixture(scope="session", params=EXPORTS)
def exported(request: pytest.FixtureRequest) -> Exported:
    name, opset = request.param
    return Exported(name, opset, export_source(resolve(name), opset))
