"""A host that was busy is named wherever times are shown. What it took is made up: no test can make a host busy."""

from __future__ import annotations

import io

from rich.console import Console

from ffn_export.latency.result import Ratio
from ffn_export.reports.host import stolen_words
from ffn_export.reports.tables import tuning_table
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.result import Pair, Trial, TuningResult


def tuned(*stolen: float | None) -> TuningResult:
    """One candidate that was timed, and timed again, while the host took these shares."""
    first, *again = (Pair("seq=128", 128, Ratio("candidate", "other", 0.9, 0.8, 1.1), share) for share in stolen)
    trials = (Trial("with padded-widths", "left", "no faster", (first,)),)
    return TuningResult("ort-cpu", "ort-cpu", (128,), Choice(), Choice(), Choice(), "r", trials, tuple(again))


def test_the_most_that_it_took_at_each_length_is_said_of_a_tuning() -> None:
    words = "the host gave of the processors' time to others 20% at seq=128: times there say little, measure again"
    assert stolen_words(tuned(0.08, 0.2)) == words
    stream = io.StringIO()
    Console(file=stream, width=10_000).print(tuning_table(tuned(0.2)))
    assert words in stream.getvalue().splitlines()


def test_nothing_is_said_where_it_took_little_or_nobody_counted() -> None:
    assert stolen_words(tuned(0.05, None)) == ""


def test_evidence_keeps_what_it_took() -> None:
    assert TuningResult.from_dict(tuned(0.2, None).to_dict()) == tuned(0.2, None)
