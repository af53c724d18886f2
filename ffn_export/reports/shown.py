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
    """Yield what is shown of a result: its table, or the parts of the results that it consists of."""
    if isinstance(result, LatencyResult) and not result.measurements:
        return
    if type(result) in _TABLES:
        yield _TABLES[type(result)](result)
        return
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, Shown):
            yield from _parts(value)
    failures = getattr(result, "failures", ())
    passed = getattr(result, "passed", not failures)
    yield Text("\n".join(["passed" if passed else "FAILED", *failures]))
    directory = getattr(result, "directory", None)
    if directory is not None and passed:
        yield Text(str(directory))
