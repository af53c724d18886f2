"""Whole models beside the same competitors, 8 bits on real activations, and the time of an export and of tuning."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from corpus.architectures import pretrained
from corpus.peers import silent
from ffn_export.core.one_line import first_line
from ffn_export.errors import FfnExportError, UsageError
from peers.blocks import group, line
from peers.cells import Effort
from peers.export_time import export_times
from peers.real_activations import accuracy
from peers.result import BARE, Cell, Results
from peers.tune_time import PRESET, tune_seconds
from peers.whole_models import BERT_BASE, MINILM, NOT_INSTALLED, whole_subject

TOKENS = (16, 128, 512)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class EndToEnd:
    """What is asked for beside the table of blocks.

    Attributes:
        models: Names of whole models; that of MiniLM stands for 8 bits on its real activations, too.
        tokens: Their lengths.
        threads: Numbers of intra-op threads; what is no latency takes the largest.
        competitors: Who takes part.
        effort: For each cell.
        export_runs: Exports of BERT-base each way; 0 leaves it out.
        tune_time: Whether ``ffn-export tune`` is timed.
    """

    models: Sequence[str]
    tokens: Sequence[int]
    threads: Sequence[int]
    competitors: Sequence[str]
    effort: Effort
    export_runs: int
    tune_time: bool


def measured(asked: EndToEnd, results: Results, progress: Progress) -> Iterator[Results]:
    """Yield the results with each thing more that was missing in them; what cannot be measured is named there.

    Args:
        asked: What is measured.
        results: What there is.
        progress: Called with a line for each step.
    """
    for name, step in _steps(asked):
        results = replace(results, missing={what: why for what, why in results.missing.items() if what != name})
        yield results
        try:
            for more in step(asked, results, progress):
                results = more
                yield results
        except Exception as error:  # noqa: BLE001 - whatever an exporter or a runtime raises; hours of times are kept
            why = str(error) if isinstance(error, FfnExportError) else first_line(error)
            results = replace(results, missing={**results.missing, name: why})
            yield results


_Step = Callable[[EndToEnd, Results, Progress], Iterator[Results]]


def _steps(asked: EndToEnd) -> Iterator[tuple[str, _Step]]:
    """Yield what is measured, by the name that a page calls it where it is missing."""
    for model in asked.models:
        yield model, partial(_latency, model)
    if MINILM in asked.models:
        yield "8 bits on real activations", _accuracy
    if asked.export_runs:
        yield f"the time of an export of {BERT_BASE}", _exports
    if asked.tune_time:
        yield f"the time of ffn-export tune {PRESET}", _tuning


def _latency(model: str, asked: EndToEnd, results: Results, progress: Progress) -> Iterator[Results]:
    """Add the cells of a model that are missing, those of a number of threads at a time."""
    there = {(cell.model, cell.threads, cell.tokens) for cell in results.whole}
    wanted = {n: [count for count in asked.tokens if (model, n, count) not in there] for n in asked.threads}
    if not any(wanted.values()):
        return
    progress(f"exporting {model}")
    names = [name for name in asked.competitors if name != BARE]
    with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as scratch:
        with silent():
            subject = whole_subject(model, tuple(asked.tokens), Path(scratch))
        for number, counts in wanted.items():
            cells: list[Cell] = []
            for cell in group(subject, number, counts, names, asked.effort):
                progress(line(cell))
                cells.append(cell)
            if cells:
                results = results.with_whole(cells)
                yield results


def _accuracy(asked: EndToEnd, results: Results, progress: Progress) -> Iterator[Results]:
    if results.accuracy is None:
        if not pretrained.installed():
            raise UsageError(NOT_INSTALLED)
        yield replace(results, accuracy=accuracy(MINILM, pretrained.directory(), progress))


def _exports(asked: EndToEnd, results: Results, progress: Progress) -> Iterator[Results]:
    if results.export_times is None:
        yield replace(results, export_times=export_times(BERT_BASE, asked.export_runs, max(asked.threads), progress))


def _tuning(asked: EndToEnd, results: Results, progress: Progress) -> Iterator[Results]:
    if results.tune_seconds is None:
        progress(f"ffn-export tune {PRESET}")
        yield replace(results, tune_seconds=tune_seconds())
