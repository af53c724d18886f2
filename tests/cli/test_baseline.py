"""``--baseline`` of verify and bench."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ffn_export.cli.main import run

Capture = pytest.CaptureFixture[str]
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def old(bundle: Path, tmp_path: Path) -> Callable[[str, Edit], str]:
    """Write a bundle's stored result with something changed, and return its path."""

    def write(name: str, edit: Edit) -> str:
        data = json.loads((bundle / name).read_text())
        edit(data)
        (tmp_path / "old.json").write_text(json.dumps(data))
        return str(tmp_path / "old.json")

    return write


def ratios(data: dict[str, Any], value: float) -> None:
    """Give one measurement a ratio, and leave the others out."""
    del data["measurements"][1:]
    for ratio in data["measurements"][0]["ratios"]:
        ratio.update(value=value, low=value, high=value)


def one_more_weight(data: dict[str, Any]) -> None:
    data["weights"].append({**data["weights"][0], "parameter": "once.there"})


@pytest.mark.slow
def test_a_bundle_is_not_worse_than_its_own_verification(bundle: Path, capfd: Capture) -> None:
    assert run(["verify", str(bundle), "--baseline", str(bundle / "parity.json")]) == 0
    assert "nothing is worse" in capfd.readouterr().err


@pytest.mark.slow
def test_what_is_no_longer_judged_is_status_1(bundle: Path, old: Callable[..., str], capfd: Capture) -> None:
    assert run(["verify", str(bundle), "--baseline", old("parity.json", one_more_weight), "--quiet"]) == 1
    err = capfd.readouterr().err
    assert "ffn-export: worse than baseline" in err
    assert "parameter 'once.there'" in err


@pytest.fixture
def never_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every timing as it is: tests that run beside each other make this machine a busy one."""
    for bound in ("MOST_LOST", "STOLEN", "MOST_SPREAD"):
        monkeypatch.setattr(f"ffn_export.latency.result.{bound}", math.inf)


@pytest.mark.usefixtures("never_in_doubt")
@pytest.mark.slow
def test_verify_times_what_a_bundle_has_timed(bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    before = tmp_path / "before"
    shutil.copytree(bundle, before)
    data = json.loads((before / "latency.json").read_text())
    for value, status in ((1e6, 0), (1e-6, 1)):
        ratios(data, value)
        (before / "latency.json").write_text(json.dumps(data))
        assert run(["verify", str(bundle), "--baseline", str(before), "--quiet"]) == status
    (line,) = capfd.readouterr().err.splitlines()
    assert "worse than baseline" in line
    assert "x torch" in line


@pytest.mark.usefixtures("never_in_doubt")
@pytest.mark.slow
def test_bench_times_the_sizes_of_its_baseline(bundle: Path, old: Callable[..., str], capfd: Capture) -> None:
    def one(data: dict[str, Any]) -> None:
        ratios(data, 1e-6)
        data["measurements"][0]["sizes"] = {"batch": 2, "seq": 3}

    assert run(["bench", str(bundle), "--baseline", old("latency.json", one), "--json", "-"]) == 1
    out, err = capfd.readouterr()
    assert [m["sizes"] for m in json.loads(out)["measurements"]] == [{"batch": 2, "seq": 3}]
    assert "ort-cpu at batch=2,seq=3: takes" in err


@pytest.mark.slow
def test_a_timing_of_another_machine_is_no_gate_that_passes(
    bundle: Path, old: Callable[..., str], capfd: Capture
) -> None:
    path = old("latency.json", lambda data: data["environment"].update(processor="another"))
    assert run(["bench", str(bundle), "--baseline", path, "--tokens", "1"]) == 1
    assert "timed with another processor" in capfd.readouterr().err


@pytest.mark.slow
def test_a_baseline_that_is_none_is_bad_input(bundle: Path, tmp_path: Path, capfd: Capture) -> None:
    assert run(["verify", str(bundle), "--baseline", str(tmp_path / "none.json")]) == 2
    assert run(["bench", str(bundle), "--baseline", str(bundle / "parity.json")]) == 2
    assert "holds no timing" in capfd.readouterr().err


def test_a_stored_result_is_held_against_another_without_a_run(
    bundle: Path, old: Callable[..., str], capfd: Capture
) -> None:
    stored = str(bundle / "parity.json")
    assert run(["verify", "--rejudge", stored, "--baseline", str(bundle)]) == 0
    assert "latency is not judged: nothing is timed" in capfd.readouterr().err
    assert run(["verify", "--rejudge", stored, "--baseline", old("parity.json", one_more_weight)]) == 1


def test_inputs_of_ones_own_have_no_baseline(bundle: Path, capfd: Capture) -> None:
    vectors = str(bundle / "test_data_set_0")
    assert run(["verify", str(bundle), "--load-inputs", vectors, "--baseline", str(bundle)]) == 2
    assert "leave one of both out" in capfd.readouterr().err
