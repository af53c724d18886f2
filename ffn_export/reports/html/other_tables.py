"""HTML tables of latency, fusion, tuning, bisection and environment."""

from __future__ import annotations

from ffn_export.fusion.report import FusionReport
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.bisection.result import Bisection
from ffn_export.reports import latency, sites, tuning
from ffn_export.reports.bisection import FURTHER, further_rows, part_rows
from ffn_export.reports.html.table import Table, table
from ffn_export.runtimes.environment import Environment
from ffn_export.tuning.result import TuningResult


def latency_table(result: LatencyResult) -> Table:
    """Return one row for each set of sizes and runtime, and another if it was timed with copies."""
    numbers = latency.headers(result, " ", verbose=True)
    titles = ("sizes", "runtime", *numbers, "verdict")
    return table("Times", titles, latency.rows(result, verbose=True), numbers=numbers, verdicts=("verdict",))


def sites_table(report: FusionReport) -> Table:
    """Return one row for each site."""
    rows = sites.rows(report, verbose=True)
    return table("Sites", sites.HEADERS, rows, numbers=sites.NUMBERS, verdicts=("status",))


def tuning_table(result: TuningResult) -> Table:
    """Return one row for each move, and one for the held-out rounds."""
    numbers = tuning.headers(result)
    headers = ("tried", *numbers, "outcome", "why")
    return table(f"Tried, with its {tuning.CAPTION}", headers, tuning.rows(result), numbers=numbers)


def bisection_tables(bisection: Bisection) -> list[Table]:
    """Return a table of the part named for the difference, and one of other parts over their budget."""
    tables = []
    if bisection.part is not None:
        tables.append(table("Guilty", ("what", "found"), part_rows(bisection.part)))
    if bisection.further:
        tables.append(table("Also wrong alone", FURTHER, further_rows(bisection.further)))
    return tables


def environment_table(environment: Environment) -> Table:
    """Return processor, threads, system and versions."""
    rows = [
        ("processor", environment.processor),
        ("threads", str(environment.threads)),
        ("system", environment.system),
        *environment.versions.items(),
    ]
    return table("Environment", ("what", "value"), rows)
