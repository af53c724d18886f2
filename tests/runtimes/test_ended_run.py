"""A run of a graph that would not end is ended, and the session does not try again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ffn_export.runtimes import ended_run
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ended_run import DidNotEndError
from ffn_export.runtimes.ort_cpu import OrtCpu
from tests.fuzz.hostile import loop

FEEDS = {"x": np.ones((2, 8), np.float32)}


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_run.ALLOWED, "seconds", 0.5)


@pytest.mark.slow
def test_a_loop_without_end_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(loop(2**62).SerializeToString())
    runner = OrtCpu().load(Artifact(path), 1)
    with pytest.raises(DidNotEndError, match="it did not end within"):
        runner.run(FEEDS)
    with pytest.raises(DidNotEndError, match="it was not run: on other inputs it did not end"):
        runner.run(FEEDS)


def test_a_loop_that_ends_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(loop(100).SerializeToString())
    runner = OrtCpu().load(Artifact(path), 1)
    first, second = runner.run(FEEDS), runner.run(FEEDS)
    assert np.array_equal(first["y"], second["y"])


def test_one_thread_looks_at_all_runs() -> None:
    with ended_run.ended_after(1000):
        threads = threading.active_count()
        with ended_run.ended_after(1000), ended_run.ended_after(1000):
            assert threading.active_count() == threads


@pytest.mark.slow
def test_a_run_is_ended_while_others_go_on() -> None:
    with ended_run.ended_after(1000) as longer, ended_run.ended_after(0) as ended:
        began = time.monotonic()
        while not ended.terminate and time.monotonic() < began + 10:
            time.sleep(0.01)
        assert ended.terminate
        assert not longer.terminate


def test_what_a_run_may_take_grows_with_the_model() -> None:
    assert ended_run.allowed_seconds(440_000_000) > ended_run.allowed_seconds(0) + 400
