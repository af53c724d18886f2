"""Console table of several verifications."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.tables.layout import BAD, GOOD, UNSURE, add_row, new_table


def parity_summary_table(results: Mapping[str, ParityResult | str]) -> Table:
    """Return one row for each model.

    Args:
        results: Name of a model -> its verification, or the reason why it could not be verified.
    """
    numbers = ("cases", "worst error\n(ulp)")
    table = new_table("model", "verdict", *numbers, "judged by", "first failure or warning", numbers=numbers)
    for name, result in results.items():
        if isinstance(result, str):
            add_row(table, name, Text("FAILED", BAD), "0", "", "", result)
            continue
        verdict = _verdict(result)
        judged = [case for case in result.cases if case.skipped is None]
        worst = max((output.actual.ulps for case in judged for output in case.outputs), default=None)
        error = "" if worst is None else f"{worst:,.2f}"
        found = next(iter((*result.failures, *filter(None, [result.allowance]), *result.warnings)), "")
        add_row(table, name, verdict, str(len(judged)), error, ", ".join(result.judged), found)
    return table


def _verdict(result: ParityResult) -> Text:
    if not result.passed:
        return Text("FAILED", BAD)
    return Text("warned", UNSURE) if result.warnings else Text("passed", GOOD)
