"""The runtimes of the execution provider in ``native/``: by name, proven by the nodes that it computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes import ort_native
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_native import NAME
from ffn_export.runtimes.probe_model import Trial
from tests.embed.bundles import with_manifest
from tests.native.provider import needs_provider
from tests.runtimes.graphs import write


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == ort_native.PACKAGE else found(name, *rest)
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    fused, _ = fx.fuse(fx.export("d2l-ffn"), outline=True)
    fx.save(fused, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.usefixtures("without_package")
def test_without_the_package_it_is_unavailable_in_one_line(model: Path) -> None:
    reason = ort_native.FLOAT32.unavailable(Artifact(model))
    assert reason == "onnxruntime-ep-ffn is not installed: native/README.md says how to build it"
    assert run(["verify", str(model), "--against", "d2l-ffn", "--runtime", "ort-native", "--fast"]) == 3


@needs_provider
def test_a_model_of_which_it_claims_no_node_is_unavailable(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = Relu(x)")
    with pytest.raises(RuntimeUnavailableError, match="claims no node of this model: it takes feed-forwards that fuse"):
        ort_native.FLOAT32.load(artifact, 1)


@needs_provider
@pytest.mark.parametrize("runtime", ort_native.BY_PRECISION.values(), ids=lambda each: each.name)
def test_it_runs_the_trial_of_doctor(runtime: ort_native.OrtNative, tmp_path: Path) -> None:
    if ort_native.provider_problem(runtime.precision) is not None:
        pytest.skip(str(ort_native.provider_problem(runtime.precision)))
    said = Trial(tmp_path).run(runtime)
    assert said.startswith(f"ran a model on {NAME} in ")
    assert runtime.dtype in said


@needs_provider
def test_it_judges_float32_as_float32(model: Path) -> None:
    result = fx.verify(model, against="d2l-ffn", runtimes=["ort-native"], fast=True)
    assert result.passed
    assert result.placement["ort-native"][NAME] == 1
    assert result.precision["ort-native"] == "float32"


@needs_provider
def test_a_bundle_that_it_verified_is_loaded_on_it(tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, outline=True, fast=True, runtimes=["ort-native"])
    session = fx.load(built.directory)
    assert session.providers[0] == NAME
    assert session.manifest.provider_options == {"precision": "f32"}
    x = np.ones((1, 2, 4), np.float32)
    assert session.run({"x": x})["y"].shape == (1, 2, 4)


@pytest.mark.usefixtures("without_package")
def test_no_other_provider_takes_its_place(tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path / "built", outline=True, fast=True)
    bundle = with_manifest(built.directory, tmp_path / "native", provider=NAME, provider_options={"precision": "f32"})
    with pytest.raises(RuntimeUnavailableError, match="onnxruntime-ep-ffn is not installed"):
        fx.load(bundle)
