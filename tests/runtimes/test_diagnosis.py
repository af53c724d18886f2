"""What `doctor` finds: a layer is run on every runtime, and a reason is given where that cannot be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes import diagnosis, registry
from ffn_export.runtimes.base import Artifact, Runtime
from ffn_export.runtimes.openvino_cpu import FLOAT32
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.probe_model import Trial
from ffn_export.runtimes.tract_cpu import Tract


class Wrong(Runtime):
    """A runtime that is broken: it gives back what it is given."""

    name = "wrong"

    def unavailable(self, artifact: Artifact) -> None:
        return None

    def load(self, artifact: Artifact, threads: int) -> Wrong:
        return self

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": feeds["x"]}

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        return lambda: self.run(feeds)

    def placement(self) -> dict[str, int]:
        return {"nowhere": 1}

    def precision(self) -> str:
        return "float32"


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def choose(*runtimes: Runtime) -> None:
        monkeypatch.setattr(registry, "RUNTIMES", {runtime.name: runtime for runtime in runtimes})

    return choose


def test_a_runtime_that_works_says_where_and_in_what(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    assert trial.run(OrtCpu()) == "ran a model on CPUExecutionProvider in float32"
    assert trial.run(FLOAT32) == "ran a model on CPU in float32"
    assert trial.run(Tract()) == "ran a model on CPU, one thread in float32"


def test_a_runtime_that_computes_something_else_is_a_problem(only: Callable[..., None]) -> None:
    only(Wrong())
    (finding,) = diagnosis._runtimes()
    assert (finding.subject, finding.verdict) == ("wrong", "problem")
    assert "came out as" in finding.detail


def test_what_is_optional_may_be_missing_and_what_is_needed_may_not(
    only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(OrtCpu(), FLOAT32, Tract())
    monkeypatch.setitem(sys.modules, "openvino", None)  # as if it were not installed
    monkeypatch.setattr(OrtCpu, "load", lambda *_: (_ for _ in ()).throw(RuntimeUnavailableError("no kernel")))
    found = {finding.subject: finding for finding in diagnosis._runtimes()}
    assert {name: finding.verdict for name, finding in found.items()} == {
        "ort-cpu": "problem",
        "openvino": "note",
        "tract": "ok",
    }
    assert "pip install 'ffn-export[openvino]'" in found["openvino"].detail


def test_the_trial_is_the_same_function_as_module_and_as_model(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    x = {"x": np.ones((2, 4), np.float32)}
    results = [registry.RUNTIMES[name].load(trial.artifact, 1).run(x) for name in ("torch", "reference")]
    assert all(np.array_equal(array, 2 * x["x"]) for result in results for array in result.values())
