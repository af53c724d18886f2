"""Output of ``build`` and ``tune``: the results of a bundle, or of a build that failed a quality gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ffn_export.cli.state import State
from ffn_export.errors import GateError
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from ffn_export.bundle.build import Build


def make(state: State, build: Callable[[Callable[[str], None]], Build]) -> int:
    """Build with progress, show the result, and return the exit status.

    Args:
        state: State of the command line.
        build: Function that builds the bundle; it takes a progress callback.

    Raises:
        GateError: If a quality gate failed, after all results have been shown.
    """
    from ffn_export.cli.progress import progress
    from ffn_export.reports.console import stderr_console

    console = stderr_console(quiet=state.quiet)
    failed: GateError | None = None
    with progress(console, quiet=state.quiet) as report:
        try:
            result: Any = build(report)
        except GateError as error:
            failed, result = error, error.result
    _show(console, result)
    if failed is not None:
        missing = result.failures[1:] if result.parity is None else ()  # the tables show failures of the other gates
        for line in missing:
            say(f"ffn-export: {line}")
        raise failed
    console.print(f"bundle: {result.directory}", soft_wrap=True)
    return 0


def _show(console: Any, result: Any) -> None:
    from ffn_export.reports.tables import (
        export_table,
        fusion_table,
        latency_table,
        parity_table,
        quantization_table,
        tuning_table,
    )
    from ffn_export.reports.tables.signature import signature

    if result.manifest is not None:
        m = result.manifest
        console.print(
            export_table(
                m.name,
                source=f"{m.source['spec']}: {m.source['reference']}".rstrip(": "),
                inputs=[f"{name}:{spec}" for name, spec in m.source["inputs"].items()],
                outputs=list(map(signature, m.outputs)),
                opset=m.opset_imports[""],
                weights_bytes=m.weights_bytes,
                nodes=m.fusion["nodes"]["after"],
                target=m.target,
            )
        )
    parts = (
        (tuning_table, result.tuning), (fusion_table, result.fusion), (quantization_table, result.quantization),
        (parity_table, result.parity), (latency_table, result.latency),
    )  # fmt: skip
    for table, part in parts:
        if part is not None:
            console.print(table(part))
