"""Stored results, recognised by what they hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ffn_export.bundle import stored
from ffn_export.errors import UsageError
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.reports.json_report import write_json

PARITY = ParityResult("m.onnx", "bert-ffn", Tolerances(), ())
LATENCY = LatencyResult("m.onnx", "torch", ())


def test_a_file_is_what_it_holds(tmp_path: Path) -> None:
    write_json(PARITY.to_dict(), tmp_path / "a.json")
    write_json(LATENCY.to_dict(), tmp_path / "b.json")
    assert stored.read(tmp_path / "a.json") == stored.Stored(parity=PARITY)
    assert stored.read(tmp_path / "b.json") == stored.Stored(latency=LATENCY)


def test_a_bundle_holds_both(tmp_path: Path) -> None:
    write_json(PARITY.to_dict(), tmp_path / "parity.json")
    assert stored.read(tmp_path) == stored.Stored(parity=PARITY)
    write_json(LATENCY.to_dict(), tmp_path / "latency.json")
    assert stored.read(tmp_path) == stored.Stored(PARITY, LATENCY)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("[]", "is no result of"),
        ('{"sites": []}', "is no result of"),
        (
            '{"measurements": [{}], "model": "m", "baseline": ""}',
            "is damaged: Object missing required field `sizes`",
        ),
        (json.dumps({**PARITY.to_dict(), "format": 0}), "make it anew"),
    ],
)
def test_anything_else_is_bad_input_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        stored.read(tmp_path / "old.json")
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        stored.read(tmp_path / "none.json")
    with pytest.raises(UsageError, match=r"neither parity\.json nor latency\.json"):
        stored.read(tmp_path)
