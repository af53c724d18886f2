"""HTML tables of a verification."""

from __future__ import annotations

from collections.abc import Iterator

from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import OutputMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.reports.html.table import Table, table
from ffn_export.reports.overview import ERRORS, STATUSES, check_rows, error_cells, number, runtime_rows

_MORE = ("conditioning (ulp)", "relative L2", "SNR (dB)", "cosine", "NaN", "Inf")


def runtimes_table(result: ParityResult) -> Table:
    """Return one row for each runtime, with its worst case."""
    headers = ("runtime", "verdict", *STATUSES, *ERRORS, "worst case")
    rows = (row.cells for row in runtime_rows(result))
    return table("Runtimes", headers, rows, numbers=(*STATUSES, *ERRORS), verdicts=("verdict",))


def checks_table(result: ParityResult) -> Table:
    """Return one row for each check and each unavailable runtime."""
    return table("Other checks", ("check", "verdict", "found"), check_rows(result), verdicts=("verdict",))


def failing_table(result: ParityResult) -> Table:
    """Return one row for each failing output, and each error, of the failed cases."""
    headers = ("case", "runtime", "output", *ERRORS, "worst at", "seed", "inputs saved as", "problem")
    rows = (
        row for case in result.cases if case.status(result.tolerances) == "failed" for row in _failing(case, result)
    )
    return table("Failed cases", headers, rows, numbers=(*ERRORS, "seed"))


def _failing(case: CaseResult, result: ParityResult) -> Iterator[tuple[str, ...]]:
    saved = case.saved or ""
    if case.error is not None:
        yield (case.case, case.runtime, *[""] * 6, str(case.seed), saved, case.error)
    for output in case.outputs:
        found = case.output_failure(output, result.tolerances)
        if found is not None:
            yield (
                case.case,
                case.runtime,
                output.output,
                *_errors(output, result.tolerances),
                _index(output),
                str(case.seed),
                saved,
                _without_number(output, found),
            )


def cases_table(result: ParityResult, runtime: str) -> Table:
    """Return all outputs of all cases of one runtime, with all measures."""
    headers = ("case", "verdict", "output", *ERRORS, *_MORE, "worst at")
    numbers = (*ERRORS, *_MORE)
    rows = (row for case in result.cases if case.runtime == runtime for row in _measured(case, result.tolerances))
    return table(f"All cases of {runtime}", headers, rows, numbers=numbers, verdicts=("verdict",))


def _measured(case: CaseResult, tolerances: Tolerances) -> Iterator[tuple[str, ...]]:
    status = case.status(tolerances)
    if not case.outputs:
        yield (case.case, status, case.error or case.skipped or "", *[""] * (len(ERRORS) + len(_MORE) + 1))
    for output in case.outputs:
        actual = output.actual
        conditioning = number(output.conditioning_ulps) if output.conditioning_ulps else ""
        relative = (f"{actual.relative_l2:.2e}", f"{actual.snr_db:.1f}", f"{actual.cosine:.9f}")
        more = (conditioning, *relative, str(actual.nan), str(actual.inf))
        yield (case.case, status, output.output, *_errors(output, tolerances), *more, _index(output))


def _errors(output: OutputMetrics, tolerances: Tolerances) -> tuple[str, str, str, str]:
    return error_cells(output, tolerances) if output.problem is None else ("", "", "", "")


def _without_number(output: OutputMetrics, failure: str) -> str:
    """Return why an output fails if its numbers do not show it, else an empty string."""
    return failure if output.problem is not None or output.unexpected else ""


def _index(output: OutputMetrics) -> str:
    index = output.unexpected_index if output.unexpected else output.actual.worst_index
    return str(list(index)) if index else ""


def weights_table(result: ParityResult) -> Table:
    """Return one row for each traced initializer, each untraced constant, and each parameter in no constant."""
    numbers = ("differing", "largest difference", "relative L2")
    headers = ("initializer", "verdict", "parameter", "how it holds it", *numbers)
    rows = (
        (
            w.initializer,
            "passed" if verdict.weight_failure(w, result.tolerances) is None else "failed",
            w.parameter,
            w.how,
            f"{w.differing:,}",
            f"{w.max_relative:.2g}",
            f"{w.relative_l2:.2g}",
        )
        for w in result.weights
    )
    untraced = (
        (c.name, "warned", c.resembles and f"resembles {c.resembles}", "matches no parameter", c.type, "", "")
        for c in result.untraced
    )
    unheld = (("", "warned", p.name, "in no constant", p.type, "", "") for p in result.unheld)
    found = (*rows, *untraced, *unheld)
    return table("Weights traced to parameters", headers, found, numbers=numbers, verdicts=("verdict",))


def properties_table(result: ParityResult) -> Table:
    """Return one row for each property checked on a runtime."""
    headers = ("property", "verdict", "runtime", "output", "difference (ulp)", "allowed (ulp)", "found")
    rows = []
    for p in result.properties:
        failure = verdict.property_failure(p, result.tolerances)
        allowed = "same bits" if p.exact else number(verdict.property_limit(p, result.tolerances))
        status = "passed" if failure is None else "failed"
        rows.append((p.property, status, p.runtime, p.output, number(p.ulps), allowed, failure or ""))
    return table("Properties", headers, rows, numbers=headers[4:6], verdicts=("verdict",))


def placement_table(result: ParityResult) -> Table:
    """Return device, number of nodes and precision of each runtime, as far as the runtime reports them."""
    rows = [
        (runtime, where, str(nodes), result.precision.get(runtime, ""))
        for runtime, places in result.placement.items()
        for where, nodes in places.items()
    ]
    told = {runtime for runtime, *_ in rows}
    rows += [(runtime, "", "", dtypes) for runtime, dtypes in result.precision.items() if runtime not in told]
    headers = ("runtime", "device or provider", "nodes", "precision")
    return table("Where nodes ran", headers, rows, numbers=("nodes",))
