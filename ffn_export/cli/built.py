"""Output of ``build`` and ``tune``: the results of a bundle, or of a build that failed a quality gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ffn_export.cli.state import State
from ffn_export.errors import GateError
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from ffn_export.bundle.build import Build


def make(
    state: State,
    build: Callable[[Callable[[str], None]], Build],
    data: Callable[[Build], Mapping[str, Any] | None],
    json_path: str | None,
) -> int:
    """Build with progress, show the result, and return the exit status.

    Args:
        state: State of the command line.
        build: Function that builds the bundle; it takes a progress callback.
        data: Function that returns the plain data for ``json_path``, or None if there is none.
        json_path: Where to write it, also if a quality gate failed; None writes nothing.

    Raises:
        GateError: If a quality gate failed, after all results have been shown.
    """
    from ffn_export.reports.json_report import write_json

    failed: GateError | None = None
    with state.progress() as report:
        try:
            result: Any = build(report)
        except GateError as error:
            failed, result = error, error.result
    told = None if json_path is None else data(result)
    if told is not None and json_path is not None:
        write_json(told, json_path)
    _show(state, result)
    if failed is not None:
        missing = result.failures[1:] if result.parity is None else ()  # the tables show failures of the other gates
        for line in missing:
            say(f"ffn-export: {line}")
        raise failed
    return 0


def _show(state: State, result: Build) -> None:
    """Print the tables, and at the end what the model is worth."""
    from ffn_export.reports.console import Lines
    from ffn_export.reports.summary import size_words, summary
    from ffn_export.reports.tables import (
        fusion_table,
        latency_table,
        parity_table,
        quantization_table,
        summary_lines,
        tuning_table,
    )

    parts: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (result.tuning, tuning_table),
        (result.fusion, partial(fusion_table, verbose=state.verbose)),
        (result.quantization, quantization_table),
        (result.parity, parity_table),
        (
            result.latency if result.latency and result.latency.measurements else None,
            partial(latency_table, verbose=state.verbose),
        ),
    )
    console = state.console
    for part, table in parts:
        if part is not None:
            console.print(table(part))
            console.print()
    console.print(summary_lines(summary(result.fusion, result.parity, result.latency)))
    if result.manifest is not None:
        page = result.directory / "report.html"
        console.print(Lines(f"  {size_words(result.manifest.weights_bytes)} · {result.directory} · open {page}"))
