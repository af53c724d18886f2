"""JSON that any parser reads, the same bytes each time, and the same result when it is read back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ffn_export.core.json_text import json_text
from ffn_export.fusion.report import FusionReport
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.reports.json_report import write_json

MakeCase = Callable[..., CaseResult]
MakeParity = Callable[..., ParityResult]


def test_results_survive_a_round_trip(
    failed: ParityResult, fusion: FusionReport, latency: LatencyResult, gpu_latency: LatencyResult
) -> None:
    assert ParityResult.from_dict(json.loads(json_text(failed.to_dict()))) == failed
    assert FusionReport.from_dict(json.loads(json_text(fusion.to_dict()))) == fusion
    for timed in (latency, gpu_latency):
        assert LatencyResult.from_dict(json.loads(json_text(timed.to_dict()))) == timed


def test_file_is_deterministic_in_field_order_and_ends_with_a_newline(passed: ParityResult, tmp_path: Path) -> None:
    write_json(passed.to_dict(), tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    assert text == json_text(passed.to_dict())
    assert text.startswith('{\n  "verdict": "passed",\n  "format": 2,\n  "model": "bert-ffn.onnx",\n  "against"')
    assert text.endswith("}\n")


def test_nonfinite_numbers_become_strings_that_float_reads() -> None:
    text = json_text({"values": [math.nan, math.inf, -math.inf, 1.5]})
    assert json.loads(text, parse_constant=pytest.fail) == {"values": ["NaN", "Infinity", "-Infinity", 1.5]}
    assert math.isnan(float("NaN"))
    assert float("-Infinity") == -math.inf


def test_nan_error_still_fails_when_read_back(case: MakeCase, parity: MakeParity) -> None:
    result = parity(case("bad", math.nan))
    assert not result.passed
    assert not ParityResult.from_dict(json.loads(json_text(result.to_dict()))).passed
