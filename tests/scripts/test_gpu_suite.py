"""The parts of ``gpu_suite`` that need no GPU: its verdicts, and its page."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from ffn_export.latency.competitors import Competitor
from ffn_export.latency.interleaving import Runs
from ffn_export.latency.statistics import ratios, summarise
from ffn_export.parity.judging.measures import Deviation, OutputMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes import environment
from gpu import page
from gpu.proof import RUNTIME, STATUSES, TORCH, Proof
from gpu.proving import worst_of


def case(ulps: float, own: float, conditioning: float = 0.0) -> CaseResult:
    output = OutputMetrics("y", "float32", 0.0, Deviation(ulps=ulps), Deviation(ulps=own), conditioning)
    return CaseResult(RUNTIME, f"case {ulps}", {}, "normal", 0, (output,))


def test_the_worst_error_is_the_largest_part_of_what_its_own_case_allows() -> None:
    cases = (case(6, 1), case(90, 1, conditioning=100), case(20, 10))
    result = ParityResult("m.onnx", "m", Tolerances(), cases)
    assert worst_of(result) == {
        "cases": {"passed": 3},
        "worst_ulps": 6,
        "allowed_ulps": 8,
        "torch_ulps": 1,
    }


def test_no_case_has_no_worst_error() -> None:
    assert worst_of(ParityResult("m.onnx", "m", Tolerances(), ())) == {"cases": {}}


@pytest.mark.parametrize(
    ("status", "target", "expected"),
    [
        ("passed", "ort-cuda", False),
        ("warned", "ort-cuda", False),
        ("failed", "portable", True),
        ("broken", "ort", True),
        ("refused", "ort", False),
        ("refused", "ort-cuda", True),
        ("not judged", "portable", True),
    ],
)
def test_what_cuda_need_not_take_is_no_failure(status: str, target: str, *, expected: bool) -> None:
    assert status in STATUSES
    assert Proof("d2l-ffn", "float32", target, status).is_failure is expected


def test_the_page_shows_times_with_copies_apart() -> None:
    copied, plain = Competitor(TORCH, copies=True), Competitor(TORCH)
    medians = {plain: 2e-6, copied: 8e-6, Competitor(RUNTIME): 1e-6, Competitor(RUNTIME, copies=True): 6e-6}
    runs = {who: Runs(((median,),)) for who, median in medians.items()}
    times = {
        "preset": "d2l-ffn",
        "dtype": "float32",
        "sizes": {"batch": 1},
        "timings": [asdict(summarise(who, each)) for who, each in runs.items()],
        "ratios": [asdict(ratio) for ratio in ratios(runs, TORCH)],
    }
    versions = {"gpu": "none", "onnxruntime": "none", "torch": "none", "provider options": {}}
    where = {**environment.current(1).to_dict(), **versions}
    text = page.tables(page.Results(where, [Proof("d2l-ffn", "float32", RUNTIME, "passed")], [times]), "gpu.md")
    without, with_copies = text.partition("## Latency\n")[2].split("## Latency with copies\n")
    assert "| d2l-ffn | float32 | batch=1 | 2.0 | 1.0 | 0.500 (0.500 to 0.500) |" in without
    assert "| d2l-ffn | float32 | batch=1 | 8.0 | 6.0 | 0.750 (0.750 to 0.750) |" in with_copies


def test_the_page_counts_what_was_judged_and_has_the_times_of_whole_models() -> None:
    proofs = [Proof("d2l-ffn", "float32", RUNTIME, status) for status in ("passed", "not judged")]
    runs = {Competitor(name): Runs(((median,),)) for name, median in ((TORCH, 2e-3), (RUNTIME, 1e-3))}
    model = {
        "model": "BERT-base",
        "dtype": "float16",
        "sizes": {"batch": 1},
        "errors": {TORCH: 1e-3, RUNTIME: 2e-3},
        "timings": [asdict(summarise(who, each)) for who, each in runs.items()],
    }
    text = page.page(page.Results({"gpu": "none, 1 MiB"}, proofs, [], [model]), "gpu")
    words = " ".join(text.split())
    assert "1 of 1 graphs fused for `ort-cuda` stayed within the bound" in words
    assert "1 more were not judged" in words
    assert "| BERT-base | float16 | ort-cuda | 1.00 | 2.0e-03 |" in text
    assert "summary.svg" not in text


@pytest.mark.parametrize("name", ["results-gpu", "results-gpu-h100"])
def test_the_pages_are_those_of_the_stored_results(name: str) -> None:
    docs = Path(__file__).parents[2] / "docs"
    stored = page.read(json.loads((docs / f"{name}.json").read_text()))
    text = (docs / f"{name}.md").read_text()
    assert text == page.page(stored, name)
    assert "\n\n\n" not in text
    assert (docs / f"{name}-tables.md").read_text() == page.tables(stored, f"{name}.md")
