"""A model that is in memory only while it runs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.core.types import Array
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ended_run import DidNotEndError
from ffn_export.runtimes.one_run import LoadedForEachRun
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.ort_session import OrtRunner

X = {"x": np.ones((2, 3, 4), np.float32)}


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    onnx_file.save(fx.export("d2l-ffn"), tmp_path / "m.onnx")
    return Artifact(tmp_path / "m.onnx")


def test_it_gives_what_a_loaded_model_gives(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = []
    run = OrtRunner.run

    def watched(self: OrtRunner, feeds: Mapping[str, Array]) -> dict[str, Array]:
        sessions.append(weakref.ref(self))
        return run(self, feeds)

    loaded = OrtCpu().load(artifact, 1)
    runner = LoadedForEachRun(OrtCpu(), artifact, 1)
    expected = loaded.run(X)
    monkeypatch.setattr(OrtRunner, "run", watched)
    for _ in range(2):
        for name, array in runner.run(X).items():
            np.testing.assert_array_equal(array, expected[name])
    gc.collect()
    assert [session() for session in sessions] == [None, None]
    assert (runner.placement(), runner.precision()) == (loaded.placement(), loaded.precision())


def test_a_run_that_did_not_end_is_not_tried_again(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(self: OrtRunner, feeds: Mapping[str, Array]) -> dict[str, Array]:
        raise DidNotEndError("it did not end within 15 s of CPU time")

    runner = LoadedForEachRun(OrtCpu(), artifact, 1)
    monkeypatch.setattr(OrtRunner, "run", endless)
    with pytest.raises(DidNotEndError, match=r"^it did not end"):
        runner.run(X)
    with pytest.raises(DidNotEndError, match="was not run: on other inputs it did not end"):
        runner.run(X)


def test_the_graph_is_read_once(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = LoadedForEachRun(OrtCpu(), artifact, 1)
    monkeypatch.delattr(onnx_file, "load")
    assert set(runner.run(X))
    assert runner.precision() == "float32"
