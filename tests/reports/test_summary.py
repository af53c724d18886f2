"""The end of a build says what the model is worth, and what is not so good as plainly."""

from __future__ import annotations

from dataclasses import replace

from ffn_export.fusion.report import Check, FusionReport
from ffn_export.latency.result import LatencyResult, Measurement, Ratio, Timing
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.summary import Line, summary


def timed(tokens: int, torch: tuple[float, float, float], default: tuple[float, float, float]) -> Measurement:
    timings = (Timing("torch", 1, 1, 1, 9), Timing("ort-cpu", 1, 1, 1, 9), Timing("ort-cpu", 1, 1, 1, 9, default=True))
    over = Ratio("ort-cpu", "ort-cpu default", *default)
    return Measurement({"seq": tokens}, timings, (Ratio("ort-cpu", "torch", *torch),), over_default=(over,))


FASTER, TIE, SLOWER, UNSURE = (0.5, 0.4, 0.625), (1.0, 0.8, 1.25), (2.0, 1.6, 2.5), (1.0, 0.1, 10.0)


def test_what_is_good(passed: ParityResult, fusion: FusionReport) -> None:
    latency = LatencyResult("m", "torch", (timed(1, FASTER, TIE), timed(100, FASTER, TIE)))
    checked = replace(fusion, sites=fusion.sites[:2], check=Check("passed"))
    assert summary(checked, passed, latency) == [
        Line("good", "same function    2 cases, worst 0.24 of what is allowed"),
        Line(
            "good",
            "2.00× as fast as PyTorch (1.60 to 2.50), as fast as ONNX Runtime's default within the noise "
            "(0.80 to 1.25), at 100 tokens",
        ),
        Line("plain", "feed-forward 1 rewritten · norm 1 already optimal"),
    ]


def test_what_is_not_so_good(failed: ParityResult, fusion: FusionReport) -> None:
    latency = LatencyResult("m", "torch", (timed(1, UNSURE, FASTER), timed(128, FASTER, SLOWER)))
    lines = summary(fusion, failed, latency)
    marks = [(line.mark, line.words) for line in lines]
    assert marks[0][0] == "bad"
    assert marks[0][1].startswith("not the same function    ")
    speeds = [words for _, words in marks if "token" in words]
    assert speeds[0].endswith("slower than ONNX Runtime's default: 0.50× its speed (0.40 to 0.62), at 128 tokens")
    assert speeds[1] == "speed against PyTorch is inconclusive at 1 token: its 95 % interval spans a factor of 100"
    assert ("unsure", "norm 1 refused: epsilon is no scalar") in marks
    assert marks[-1] == ("unsure", "the fused graph was not run against the exported one: it was not asked for")


def test_what_is_inconclusive_takes_one_line() -> None:
    measurements = tuple(timed(tokens, UNSURE, UNSURE) for tokens in (1, 128, 1024))
    assert summary(None, None, LatencyResult("m", "torch", measurements)) == [
        Line(
            "unsure",
            "speed is inconclusive at 1, 128 and 1,024 tokens: its 95 % interval spans a factor of 100",
        )
    ]


def test_what_was_not_measured(passed: ParityResult) -> None:
    fast = replace(passed, fast=True)
    lines = summary(None, fast, LatencyResult("m", "", ()))
    assert lines[0].mark == "unsure"
    assert lines[0].words.endswith(", on a few cases only (--fast)")
    assert lines[1] == Line("plain", "speed was not measured")
