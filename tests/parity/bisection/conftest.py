"""Modules that are bisected, exported once, and the bisection of a graph in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
import pytest
from torch import nn

from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.parity import bisection
from ffn_export.parity.bisection.reduce import Reduced
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.bisection.runs import MOST_BYTES
from ffn_export.parity.bisection.search import Suspect
from ffn_export.parity.cases.case import Case, sweep
from ffn_export.parity.reference.references import Reference, TorchReference
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.session_options import SessionSettings
from tests.parity.bisection import blocks

Search = Callable[..., tuple[Bisection, Reduced | None]]


@dataclass(frozen=True)
class Subject:
    """A module, its unfused graph, and the cases to look at."""

    source: Source
    model: ir.Model
    reference: Reference
    cases: Sequence[Case]

    def case(self, values: str) -> Case:
        """The first case of a kind of values."""
        return next(case for case in sweep(self.reference.inputs) if case.values == values)


def _subject(module: type[nn.Module], inputs: dict[str, str]) -> Subject:
    source = from_module(blocks.seeded(module), inputs, module.__name__.lower())
    reference = TorchReference(source, 1)
    drawn = sweep(reference.inputs)
    return Subject(source, export_source(source), reference, [drawn[0], *(c for c in drawn if c.values == "small")])


@pytest.fixture(scope="session")
def block() -> Subject:
    """A transformer with every kind of node."""
    return _subject(blocks.Block, {"ids": blocks.IDS, "mask": blocks.MASK})


@pytest.fixture(scope="session")
def add_norm() -> Subject:
    """A post-norm feed-forward."""
    return _subject(blocks.AddNormFeedForward, {"x": f"float32[batch,seq,{blocks.WIDTH}]"})


@pytest.fixture
def search(tmp_path: Path) -> Search:
    """Bisect a graph in memory."""

    def run(
        suspect: ir.Model,
        subject: Subject,
        *,
        reference: Reference | None = None,
        model: ir.Model | None = None,
        cases: Sequence[Case] | None = None,
        settings: SessionSettings | None = None,
        failures: tuple[str, ...] = (),
        reduce: bool = False,
        most_bytes: int = MOST_BYTES,
    ) -> tuple[Bisection, Reduced | None]:
        path = tmp_path / "suspect.onnx"
        onnx_file.save(suspect, path)
        search = bisection.search.Search(
            Suspect(path, OrtCpu(), settings or SessionSettings(), failures),
            reference or subject.reference,
            model or subject.model,
            reduce=reduce,
            most_bytes=most_bytes,
        )
        return search.over(cases or subject.cases)

    return run
