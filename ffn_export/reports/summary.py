"""The end of a build: what the model is worth, and plainly what it is not, in a few lines for every report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ffn_export.core.words import counted
from ffn_export.fusion.report import KINDS, SITE_STATUSES, FusionReport, Site, SiteKind
from ffn_export.latency.result import LatencyResult, Measurement, Ratio, RatioVerdict
from ffn_export.parity.judging.result import ParityResult

Mark = Literal["good", "bad", "unsure", "plain"]

MARKS: dict[Mark, str] = {"good": "✓", "bad": "✗", "unsure": "!", "plain": " "}
KIND_WORDS: dict[SiteKind, str] = {"feed_forward": "feed-forward", "norm": "norm", "residual_norm": "residual+norm"}

_TYPICAL_TOKENS = 128
_MARK_OF: dict[RatioVerdict, Mark] = {"faster": "good", "tie": "plain", "slower": "bad", "inconclusive": "unsure"}
_BY_WEIGHT: tuple[Mark, ...] = ("bad", "unsure", "good", "plain")


@dataclass(frozen=True)
class Line:
    """One line of a summary, with the mark in front of it."""

    mark: Mark
    words: str


def summary(
    fusion: FusionReport | None = None, parity: ParityResult | None = None, latency: LatencyResult | None = None
) -> list[Line]:
    """Return the lines for a model: parity, speed, sites. A result that is None was not asked for."""
    return [
        *(() if parity is None else _parity(parity)),
        *(() if latency is None else speed_lines(latency)),
        *(() if fusion is None else _fusion(fusion)),
    ]


def _parity(result: ParityResult) -> Iterator[Line]:
    compared = [case for case in result.cases if case.skipped is None]
    cases = counted(len(compared), "case")
    careful = f", {result.allowance}" if result.allowance else ""
    if result.passed:
        factors = [factor for case in compared if math.isfinite(factor := case.factor(result.tolerances))]
        worst = f", worst {max(factors):.2f} of what is allowed" if factors else ""
        yield Line("unsure" if result.warnings or careful else "good", f"same function    {cases}{worst}{careful}")
    else:
        failed = sum(case.status(result.tolerances) == "failed" for case in compared)
        yield Line("bad", f"not the same function    {failed} of {cases} failed: {result.failures[0]}{careful}")
    if result.warnings:
        yield Line("unsure", f"{len(result.warnings)} warned: {result.warnings[0]}")
    skipped = [case for case in result.cases if case.skipped is not None]
    if skipped and compared:
        yield Line("unsure", f"{len(skipped)} of {len(result.cases)} cases were not judged: {skipped[0].skipped}")


def size_words(weights_bytes: int) -> str:
    """Return the size of the weights of a model, such as ``18.9 MB``."""
    size, unit = (weights_bytes / 1e6, "MB") if weights_bytes >= 1e6 else (weights_bytes / 1e3, "kB")
    return f"{size:,.1f} {unit}"


def speed_lines(result: LatencyResult) -> Iterator[Line]:
    """Yield the speed of each runtime at a typical length, and the other lengths where it is not faster."""
    if not result.measurements:
        yield Line("plain", "speed was not measured")
        return
    runtimes = dict.fromkeys(
        timing.runtime
        for measurement in result.measurements
        for timing in measurement.timings
        if not timing.default and not timing.copies and timing.label != result.baseline
    )
    for runtime in runtimes:
        timed = [(m, found) for m in result.measurements if (found := _ratios(m, runtime))]
        if not timed:
            yield Line("unsure", f"speed of {runtime} was compared with nothing")
            continue
        typical, _ = min(timed, key=lambda each: abs(math.log(max(each[0].tokens, 1) / _TYPICAL_TOKENS)))
        named = f"{runtime}: " if len(runtimes) > 1 else ""
        for measurement, found in sorted(timed, key=lambda each: each[0] is not typical):
            told = [ratio for ratio in found if ratio.verdict != "inconclusive"]
            if measurement is not typical:
                told = [ratio for ratio in told if ratio.verdict == "slower"]
            if told:
                yield _speed(named, measurement, told)
        yield from _inconclusive(named, timed)


def _ratios(measurement: Measurement, runtime: str) -> list[Ratio]:
    found = (*measurement.ratios, *measurement.over_default)
    return [ratio for ratio in found if ratio.runtime == runtime and not ratio.copies]


def _speed(named: str, measurement: Measurement, ratios: list[Ratio]) -> Line:
    marks = {_MARK_OF[ratio.verdict] for ratio in ratios}
    words = f"{named}{', '.join(map(_compared, ratios))}, at {_tokens([measurement])}"
    return Line(next(mark for mark in _BY_WEIGHT if mark in marks), words)


def _inconclusive(named: str, timed: list[tuple[Measurement, list[Ratio]]]) -> Iterator[Line]:
    """Yield one line for all lengths at which the same ratios are inconclusive, with the gravest reason."""
    groups: dict[str, list[tuple[Measurement, Ratio]]] = {}
    for measurement, found in timed:
        doubtful = [ratio for ratio in found if ratio.verdict == "inconclusive"]
        if doubtful:
            against = "" if len(doubtful) == len(found) else f" against {' and '.join(map(_other, doubtful))}"
            worst = max(doubtful, key=lambda ratio: ratio.lost)
            groups.setdefault(against, []).append((measurement, worst))
    for against, group in groups.items():
        _, worst = max(group, key=lambda each: each[1].lost)
        tokens = _tokens([measurement for measurement, _ in group])
        yield Line("unsure", f"{named}speed{against} is inconclusive at {tokens}: {worst.doubt}")


def _tokens(measurements: list[Measurement]) -> str:
    """Return lengths in words, such as ``1, 128 and 1,024 tokens``."""
    *first, last = (f"{measurement.tokens:,}" for measurement in measurements)
    return f"{', '.join(first)}{' and ' if first else ''}{last} token{'' if [*first, last] == ['1'] else 's'}"


def _other(ratio: Ratio) -> str:
    return "ONNX Runtime's default" if ratio.baseline.endswith(" default") else "PyTorch"


def _compared(ratio: Ratio) -> str:
    other = _other(ratio)
    times, interval = _times(1 / ratio.value), f"({_times(1 / ratio.high)} to {_times(1 / ratio.low)})"
    if ratio.verdict == "tie":
        return f"as fast as {other} within the noise {interval}"
    if ratio.verdict == "slower":
        return f"slower than {other}: {times}× its speed {interval}"
    return f"{times}× as fast as {other} {interval}"


def _times(factor: float) -> str:
    return f"{factor:.2f}" if factor < 10 else f"{factor:.1f}"


def _fusion(report: FusionReport) -> Iterator[Line]:
    if report.problem is not None:
        yield Line("bad", report.problem)
    elif not report.sites:
        yield Line("plain", report.explain())
    else:
        kinds = (_kind(kind, [site for site in report.sites if site.kind == kind]) for kind in KINDS)
        yield Line("plain", " · ".join(filter(None, kinds)))
    for status in ("refused", "rolled back"):
        reasons = Counter((site.kind, site.reason) for site in report.sites if site.status == status)
        for (kind, reason), count in reasons.items():
            yield Line("unsure", f"{KIND_WORDS[kind]} {count} {status}: {reason}")
    if report.check.status == "not checked":
        yield Line("unsure", f"the fused graph was not run against the exported one: {report.check.reason}")


def _kind(kind: SiteKind, sites: list[Site]) -> str:
    """Return the sites of a kind by status; kept ones with their reason if all share it."""
    parts = []
    for status in SITE_STATUSES:
        of_status = [site for site in sites if site.status == status]
        reasons = {site.reason for site in of_status} if status == "kept" else set()
        why = f": {reasons.pop()}" if len(reasons) == 1 else ""
        parts += [f"{len(of_status)} {status}{why}"] if of_status else []
    return f"{KIND_WORDS[kind]} {', '.join(parts)}" if parts else ""
