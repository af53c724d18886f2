"""Results as they print in Python and show in a notebook: the tables of the command line."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ffn_export.core.shown import Shown
from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.difference import Difference
from ffn_export.inspection.result import Inspection
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.result import ParityResult
from ffn_export.quantization.result import QuantizationReport
from ffn_export.reports import tables
from ffn_export.reports.console import as_lines
from ffn_export.reports.summary import MARKS, summary
from ffn_export.tuning.result import TuningResult

_TABLES: Mapping[type, Callable[[Any], RenderableType]] = {
    Bisection: tables.bisection_table,
    Difference: tables.difference_table,
    FusionReport: tables.fusion_table,
    Inspection: tables.inspection_table,
    LatencyResult: tables.latency_table,
    ParityResult: tables.parity_table,
    QuantizationReport: tables.quantization_table,
    TuningResult: tables.tuning_table,
}


def as_text(result: Shown) -> str:
    """Return a result as plain text of at most 100 columns."""
    return "\n".join(as_lines(part).rstrip("\n") for part in _parts(result))


def as_html(result: Shown) -> str:
    """Return a result as HTML without scripts, for a notebook."""
    return f'<pre style="line-height: 1.2">{html.escape(as_text(result))}</pre>'


def _parts(result: Any) -> Iterator[RenderableType]:
    """Yield the table of a result; of one that consists of several, what they are worth in a few lines."""
    if type(result) in _TABLES:
        yield _TABLES[type(result)](result)
        return
    held = [getattr(result, field.name) for field in fields(result)]
    fusion = next((each for each in held if isinstance(each, FusionReport)), None)
    parity = next((each for each in held if isinstance(each, ParityResult)), None)
    latency = next((each for each in held if isinstance(each, LatencyResult)), None)
    for line in summary(fusion, parity, latency):
        yield Text(f"{MARKS[line.mark]} {line.words}")
    for each in held:
        if isinstance(each, QuantizationReport | TuningResult):
            yield from _parts(each)
    for failure in getattr(result, "failures", ()):
        yield Text(f"{MARKS['bad']} {failure}")
    if result.passed and hasattr(result, "directory"):
        yield Text(str(result.directory))
