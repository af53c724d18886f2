"""A bundle with weights in few bits: it says so, and is verified by the budget that it was built with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ffn_export as fx
from ffn_export.bundle.manifest import MANIFEST, read_manifest
from ffn_export.cli.main import run
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from tests.tuning.planted import Clock, loading

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> fx.Build:
    options = fx.QuantizationOptions()
    return fx.build(
        "d2l-ffn-addnorm", directory=tmp_path_factory.mktemp("out"), quantization=options, budget=0.05, bench_budget=0
    )


@pytest.mark.slow
def test_it_says_how_its_weights_are_stored(built: fx.Build) -> None:
    manifest = read_manifest(built.directory)
    assert manifest.quantization == {"bits": 8, "block": 32, "accuracy_level": 4, "matrices": 2}
    assert manifest.operators_outside_standard == ("com.microsoft::MatMulNBits",)
    assert manifest.tolerances["relative_l2"] == 0.05
    assert built.quantization is not None
    assert [weight.shape for weight in built.quantization.weights] == [(4, 8), (8, 4)]
    page = (built.directory / "report.html").read_text()
    assert "--bits 8 --block 32 --accuracy-level 4 --budget 0.05" in page


@pytest.mark.slow
def test_it_is_verified_loaded_and_compared_like_any_other(built: fx.Build, tmp_path: Path) -> None:
    result = fx.verify(built.directory)
    assert result.passed
    assert result.tolerances.relative_l2 == 0.05
    assert result.verdict.startswith("passed, under a tolerance that the bundle itself declares")
    assert fx.verify(built.directory, tolerances=fx.Tolerances(relative_l2=0.05)).verdict == "passed"
    assert run(["verify", str(built.directory), "--quiet", "--runtime", "ort-cpu"]) == 0
    assert run(["verify", "--rejudge", str(built.directory), "--quiet"]) == 0
    assert run(["verify", "--rejudge", str(built.directory), "--quiet", "--budget", "1e-6"]) == 1
    y = fx.load(built.directory).run({"x": np.ones((1, 2, 4), np.float32)})["y"]
    assert y.shape == (1, 2, 4)


@pytest.mark.slow
def test_what_is_over_its_budget_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(fx.GateError, match="the declared budget is 1e-05") as failed:
        fx.build(
            "d2l-ffn", directory=tmp_path, quantization=fx.QuantizationOptions(bits=4), budget=1e-5, bench_budget=0
        )
    assert isinstance(failed.value.result, fx.Build)
    assert failed.value.result.quantization is not None
    assert list(tmp_path.iterdir()) == []


def few_bits_are_faster(clock: Clock, **options: Any) -> fx.TuneOptions:
    return fx.TuneOptions((64,), 0.02, load=loading(lambda choice: choice.quantization is None, clock.sleep), **options)


@pytest.mark.slow
def test_what_tuning_may_spend_is_what_the_bundle_may(tmp_path: Path, clock: Clock) -> None:
    samples = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    tuning = few_bits_are_faster(clock, budget=0.05, samples=samples)
    built = fx.build("d2l-ffn", directory=tmp_path, tuning=tuning, bench_budget=0, threads=1)
    assert built.quantization is not None
    assert built.parity is not None
    assert built.parity.tolerances.relative_l2 == 0.05
    assert built.parity.cases[-1].case == "given inputs"


def test_tuning_chooses_how_weights_are_stored(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(fx.UsageError, match="give it a budget and leave quantization out"):
        fx.build(
            "d2l-ffn", directory=tmp_path, tuning=few_bits_are_faster(clock), quantization=fx.QuantizationOptions()
        )


@pytest.mark.slow
def test_samples_that_tuning_is_given_fit_the_model(tmp_path: Path, clock: Clock) -> None:
    tuning = few_bits_are_faster(clock, samples={"z": np.zeros((1, 2, 4), np.float32)})
    with pytest.raises(fx.UsageError, match="the arrays given are z, the inputs are x"):
        fx.build("d2l-ffn", directory=tmp_path, tuning=tuning, bench_budget=0)


@pytest.mark.slow
def test_options_that_a_bundle_was_judged_under_are_said(built: fx.Build, tmp_path: Path, capfd: Capture) -> None:
    fx.build("d2l-ffn", directory=tmp_path, bench_budget=0)
    output = tmp_path / "q.onnx"
    assert run(["quantize", str(tmp_path / "d2l-ffn"), "-o", str(output), "--budget", "0.05"]) == 0
    said = " ".join(capfd.readouterr().err.split())  # lines have at most 100 columns
    assert "session options: graph_optimization_level=basic optimization.disable" in said
    assert run(["quantize", str(tmp_path / "d2l-ffn"), "-o", str(output), "--bits", "0"]) == 2
    assert "'0' is not one of '8', '4'" in capfd.readouterr().err


@pytest.mark.slow
def test_by_the_command_line(tmp_path: Path, capfd: Capture) -> None:
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), "--bits", "8", "--budget", "0.05"]) == 0
    said = capfd.readouterr().err
    assert "8 bits in blocks of 32, accuracy level 4: 2 matrices" in said
    assert "ort-cpu gives a number for NaN" in said  # which 8-bit integers have none for, nor for infinity
    assert read_manifest(tmp_path / "d2l-ffn").parity["runtimes"]["ort-cpu"]["warned"] == 4
    assert run(["build", "d2l-ffn", "-o", str(tmp_path), "--block", "64", "--quiet"]) == 2
    assert "--block is about quantizing: give --bits 8, --bits 4 or --int8" in capfd.readouterr().err
    assert run(["build", "d2l-addnorm", "-o", str(tmp_path), "--bits", "8", "--quiet"]) == 2
    assert "nothing to quantize: there is no feed-forward" in capfd.readouterr().err


@pytest.mark.slow
def test_a_manifest_that_does_not_speak_of_it_is_read(built: fx.Build, tmp_path: Path) -> None:
    data = json.loads((built.directory / MANIFEST).read_text())
    del data["quantization"]
    (tmp_path / MANIFEST).write_text(json.dumps(data))
    assert read_manifest(tmp_path).quantization is None


@pytest.mark.slow
def test_a_bundle_of_fixed_scales_is_verified_on_inputs_of_the_size_of_its_samples(tmp_path: Path) -> None:
    samples = {"x": 1000 * np.random.default_rng(0).standard_normal((8, 16, 4)).astype(np.float32)}
    options = fx.QuantizationOptions(static="openvino")
    built = fx.build("d2l-ffn", directory=tmp_path, quantization=options, samples=samples, bench_budget=0)
    assert built.passed, built.failures
    (text,) = read_manifest(built.directory).source["inputs"].values()
    low, high = TensorSpec.parse(f"x:{text}").value_range or (0, 0)
    assert low == pytest.approx(-1700, rel=0.2)
    assert high == pytest.approx(1700, rel=0.2)
    assert fx.verify(built.directory, runtimes=["ort-cpu"]).passed


@pytest.mark.slow
def test_bundles_of_one_budget_have_the_same_inputs_whatever_was_chosen(tmp_path: Path) -> None:
    samples = {"x": 9 * np.random.default_rng(0).standard_normal((8, 16, 4)).astype(np.float32)}
    found = [
        fx.build("d2l-ffn", directory=tmp_path, name=name, quantization=options, samples=samples, budget=0.3, fast=True)
        for name, options in (("float32", None), ("int8", fx.QuantizationOptions(int8=True)))
    ]
    one, other = (read_manifest(built.directory).source["inputs"] for built in found)
    assert one == other
    assert "{" in one["x"]


def test_drawn_ids_are_measured_beside_those_of_the_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def fit(*_: object, drawn: dict[str, Array], **__: object) -> None:
        seen.append(drawn["ids"])
        raise fx.UsageError("enough")

    monkeypatch.setattr("ffn_export.bundle.build.fit", fit)
    module = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 32), torch.nn.ReLU())
    with pytest.raises(fx.UsageError, match="enough"):
        fx.build(
            module.eval(),
            {"ids": "int64[batch,seq]"},
            directory=tmp_path,
            name="ids",
            quantization=fx.QuantizationOptions(int8=True, all_products=True),
            samples={"ids": np.ones((2, 3), np.int64)},
            fast=True,
        )
    assert len(np.unique(seen[0])) > 30  # the samples have one
