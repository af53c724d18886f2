"""The runtimes of the execution provider in ``native/``: by name, proven by the nodes that it computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.runtimes import ort_native
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_native import NAME
from ffn_export.runtimes.probe_model import Trial
from tests.embed.bundles import with_manifest
from tests.native.provider import needs_kernel, needs_provider
from tests.runtimes.graphs import write

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == ort_native.PACKAGE else found(name, *rest)
    )


def of_runtime(session: fx.Session) -> dict[str, object]:
    """What a session says of its runtime, without which graph of the bundle it took."""
    return {name: session.info[name] for name in ("provider", "precision", "nodes")}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    fused, _ = fx.fuse(fx.export("d2l-ffn"), target="ort-native")
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
    with pytest.raises(
        RuntimeUnavailableError,
        match="claims no node of this model: it has none in float32, which `fuse --target ort-native` writes",
    ):
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
    built = fx.build("d2l-ffn", directory=tmp_path, target="ort-native", fast=True)
    assert built.parity is not None
    assert built.parity.judged == ("ort-cpu", "ort-native")
    session = fx.load(built.directory)
    assert of_runtime(session) == {"provider": NAME, "precision": "f32", "nodes": {NAME: 1}}
    assert session.providers[0] == NAME
    assert session.manifest.provider_options == {"precision": "f32"}
    x = np.ones((1, 2, 4), np.float32)
    assert session.run({"x": x})["y"].shape == (1, 2, 4)


@needs_provider
def test_a_graph_without_a_node_for_it_is_built_as_without_the_provider(tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, target="ort-native", dtype="float16", fast=True)
    assert built.parity is not None
    assert built.parity.judged == ("ort-cpu",)
    assert of_runtime(fx.load(built.directory))["provider"] == "CPUExecutionProvider"
    with pytest.raises(RuntimeUnavailableError, match="claims no node of this model"):
        fx.build(
            "d2l-ffn", directory=tmp_path, target="ort-native", dtype="float16", fast=True, runtimes=["ort-native"]
        )


@pytest.mark.slow
@pytest.mark.usefixtures("without_package")
def test_no_other_provider_takes_its_place(tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path / "built", target="ort-native", fast=True)
    assert built.parity is not None
    assert built.parity.judged == ("ort-cpu",)
    assert of_runtime(fx.load(built.directory)) == {
        "provider": "CPUExecutionProvider",
        "precision": "that of the graph",
        "nodes": {"CPUExecutionProvider": 5},
    }
    bundle = with_manifest(built.directory, tmp_path / "native", provider=NAME, provider_options={"precision": "f32"})
    with pytest.raises(RuntimeUnavailableError, match="onnxruntime-ep-ffn is not installed"):
        fx.load(bundle)


@needs_provider
@pytest.mark.slow
@pytest.mark.parametrize(("precision", "budget"), [("bf16", 0.01), ("int8", 0.04)])
def test_a_lower_precision_is_judged_by_its_budget(
    precision: str, budget: float, tmp_path: Path, capfd: Capture
) -> None:
    needs_kernel(precision)
    words = ["build", "nlp-transformers-ffn", "-o", str(tmp_path), "--target", "ort-native", "--precision", precision]
    assert run([*words, "--budget", str(budget), "--fast", "--quiet"]) == 0
    session = fx.load(tmp_path / "nlp-transformers-ffn")
    assert of_runtime(session) == {"provider": NAME, "precision": precision, "nodes": {NAME: 1}}
    manifest = session.manifest
    assert manifest.provider_options == {"precision": precision}
    assert manifest.tolerances["relative_l2"] == budget
    assert manifest.tolerances["budget_of"] == f"ort-native-{precision}"
    assert manifest.environment is not None
    assert "onnxruntime-ep-ffn" in manifest.environment["versions"]
    judged = manifest.parity["runtimes"]
    assert set(judged) == {"ort-cpu", f"ort-native-{precision}"}
    assert judged["ort-cpu"]["worst_ulps"] < judged["ort-cpu"]["allowed_ulps"] < 1000  # by the bound, not the budget
    assert (
        run(["verify", str(tmp_path / "nlp-transformers-ffn"), "--runtime", f"ort-native-{precision}", "--fast"]) == 0
    )
    assert f"{budget:g} on ort-native-{precision}" in capfd.readouterr().err

    assert run([*words, "--budget", "1e-5", "--fast", "--quiet", "--name", "strict"]) == 1
    assert "the declared budget is 1e-05" in capfd.readouterr().err
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--precision", "bf16", "--budget", "0.01"], "give --target ort-native beside --precision"),
        (["--target", "ort-native", "--precision", "bf16"], "bf16 differs from PyTorch: say by how much it may"),
        (["--target", "ort-native", "--precision", "f32", "--budget", "0.1"], "leave --budget out"),
        (["--target", "ort-native", "--budget", "0.1"], "--budget is about quantizing"),
    ],
)
def test_precisions_that_are_refused(options: list[str], message: str, tmp_path: Path, capfd: Capture) -> None:
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), *options]) == 2
    assert message in capfd.readouterr().err


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown precision 'bf61';"):
        fx.build("d2l-ffn", directory=tmp_path, target="ort-native", precision="bf61", budget=0.1)


@pytest.mark.usefixtures("without_package")
def test_a_lower_precision_needs_the_package(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match="onnxruntime-ep-ffn is not installed"):
        fx.build("d2l-ffn", directory=tmp_path, target="ort-native", precision="bf16", budget=0.1, fast=True)
