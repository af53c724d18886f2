"""Of native kernels, the clock and the budget choose the precision."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.bundle.manifest import read_manifest
from ffn_export.cli.main import run
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.modules import FeedForward
from ffn_export.reports.tuning import chosen_words
from ffn_export.runtimes import ort_native
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.result import TuningResult
from ffn_export.tuning.search import search
from tests.calibration.sources import OUTLIERS, module_of
from tests.native.provider import NAME, needs_kernel, needs_provider
from tests.tuning.planted import Clock, loading

Capture = pytest.CaptureFixture[str]
Slow = Callable[[Choice], bool]
FEEDS = np.random.default_rng(0).standard_normal((2, 8, 64), dtype=np.float32)
FORMS = frozenset({"rotary"})
QUICK = ["--seconds", "0.02", "--tokens", "64", "--threads", "1", "--target", "ort-native"]


def small() -> ir.Model:
    """Export a module of which all kernels take the products."""
    torch.manual_seed(0)
    return fx.export(FeedForward(64, 256, "gelu").eval(), {"x": "float32[batch,seq,64]"})


def tuned(clock: Clock, is_slow: Slow, budget: float | None) -> TuningResult:
    """Tune a small module; the kernels judge, and the planted clock times."""
    options = fx.TuneOptions((64,), 0.02, budget, load=loading(is_slow, clock.sleep))
    return search(small(), "ort-native", options, threads=1)


@needs_provider
@pytest.mark.slow
def test_the_fastest_within_the_budget_is_chosen(clock: Clock) -> None:
    for precision in ("bf16", "int8"):
        needs_kernel(precision)
        result = tuned(clock, lambda choice, fast=precision: choice.precision != fast, 0.1)  # type: ignore[misc]
        assert result.chosen == Choice(FORMS, precision=precision)
        assert result.default == Choice(FORMS, precision="f32")
        (taken,) = (trial for trial in result.trials if trial.outcome == "taken")
        assert taken.move == f"precision {precision}"
        assert ", relative L2 error " in taken.reason


@needs_provider
@pytest.mark.slow
def test_beyond_the_budget_it_is_refused(clock: Clock) -> None:
    needs_kernel("int8")
    result = tuned(clock, lambda choice: choice.precision == "f32", 1e-5)
    assert result.chosen == Choice(FORMS, precision="f32")
    assert [(trial.move, trial.outcome) for trial in result.trials] == [
        ("precision bf16", "refused"),
        ("precision int8", "refused"),
    ]
    assert all("relative L2" in trial.reason for trial in result.trials)


@needs_provider
@pytest.mark.slow
def test_over_the_budget_some_nodes_are_raised_and_the_rest_stays_in_8_bits(clock: Clock) -> None:
    needs_kernel("int8")
    planted = loading(lambda choice: choice.precision != "int8", clock.sleep)
    options = fx.TuneOptions((64,), 0.02, 0.009, samples={"x": FEEDS}, load=planted)
    exported = fx.export(module_of(OUTLIERS, "outliers"), {"x": "float32[batch,seq,64]"})
    tuned = fx.tune(exported, "ort-native", options, threads=1)
    whole, raised = tuned.tuning.trials[-2:]
    assert (whole.move, whole.outcome) == ("precision int8", "refused")
    assert (raised.move, raised.outcome) == ("precision int8, some nodes more precise", "taken")
    chosen = tuned.tuning.chosen
    assert 0 < len(chosen.raised) < 4
    names = ", ".join(chosen.raised)
    assert raised.reason.endswith(f"{len(chosen.raised)} of 4 nodes compute in bf16 to keep the budget: {names}")
    assert f"chosen: precision int8 but for {names};" in chosen_words(tuned.tuning)
    assert TuningResult.from_dict(json.loads(json.dumps(tuned.tuning.to_dict()))).chosen == chosen
    # The model that comes out is the one that was timed.
    assert tuned.passed
    stated = {node.name: node.attributes.get_string("precision", "") for node in tuned.model.graph}
    assert {name for name, precision in stated.items() if precision == "bf16"} == set(chosen.raised)


@needs_provider
@pytest.mark.slow
def test_a_bundle_has_the_nodes_that_the_tuning_raised(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_kernel("int8")
    planted = loading(lambda choice: choice.precision != "int8", clock.sleep)
    monkeypatch.setattr("ffn_export.tuning.search.loader", lambda runtime, threads: planted)
    monkeypatch.chdir(tmp_path)
    Path("layers.py").write_text(OUTLIERS)
    np.savez("x.npz", x=FEEDS)
    words = ["tune", "layers:outliers", "--input", "x:float32[B,S,64]", "--budget", "0.009", "--samples", "x.npz"]
    assert run([*words, *QUICK, "-o", ".", "--quiet"]) == 0
    manifest = read_manifest(Path("outliers"))
    assert manifest.tuning is not None
    assert manifest.provider_options == {"precision": "int8"}
    stated = {node.name: node.attributes.get_string("precision", "") for node in ir.load("outliers/model.onnx").graph}
    assert [name for name, precision in stated.items() if precision == "bf16"] == manifest.tuning["raised"]
    assert "of 4 nodes compute in bf16 to keep the budget" in Path("outliers/report.html").read_text()


@needs_provider
@pytest.mark.slow
def test_without_a_budget_it_is_float32(clock: Clock) -> None:
    result = tuned(clock, lambda choice: choice.precision == "f32", None)
    assert result.chosen == Choice(FORMS, precision="f32")
    assert result.trials == ()
    assert result.reason == "only float32 needs no budget; bfloat16 and 8-bit integers are tried within one"


@needs_provider
@pytest.mark.slow
def test_a_processor_without_the_kernels_keeps_float32(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real loader asks for the kernel, and a processor without it says so."""
    monkeypatch.setattr(ort_native, "provider_problem", lambda precision: None if precision == "f32" else "no kernel")
    options = fx.TuneOptions((16,), 0.001, budget=0.1)
    result = search(fx.export("d2l-ffn"), "ort-native", options, threads=1)
    assert result.chosen == Choice(FORMS, precision="f32")
    assert [(trial.outcome, trial.reason) for trial in result.trials] == [("refused", "no kernel")] * 2


@needs_provider
@pytest.mark.slow
def test_a_bundle_is_loaded_in_its_precision(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_kernel("bf16")
    planted = loading(lambda choice: choice.precision != "bf16", clock.sleep)
    monkeypatch.setattr("ffn_export.tuning.search.loader", lambda runtime, threads: planted)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3, 4), np.float32))
    words = ["tune", "d2l-ffn", "-o", str(tmp_path), "--budget", "0.02", "--samples", str(tmp_path / "x.npz"), *QUICK]
    assert run([*words, "--quiet"]) == 0
    bundle = tmp_path / "d2l-ffn"
    manifest = read_manifest(bundle)
    assert manifest.provider_options == {"precision": "bf16"}
    assert manifest.tuning is not None
    assert manifest.tuning["precision"] == "bf16"
    assert (manifest.tolerances["relative_l2"], manifest.tolerances["budget_of"]) == (0.02, "ort-native-bf16")
    assert set(manifest.parity["runtimes"]) == {"ort-cpu", "ort-native-bf16"}
    assert fx.load(bundle).info["precision"] == "bf16"
    assert fx.load(bundle).info["nodes"] == {NAME: 1}
    assert TuningResult.from_dict(json.loads((bundle / "tuning.json").read_text())).chosen.precision == "bf16"
    assert ">precision bf16<" in (bundle / "report.html").read_text()
    assert run(["verify", str(bundle), "--quiet"]) == 0
    assert run(["tune", str(bundle), "--quiet", *QUICK[:-2]]) == 0  # within the budget that it has
    assert read_manifest(bundle).provider_options == {"precision": "bf16"}


@needs_provider
@pytest.mark.slow
def test_a_model_is_written_and_its_precision_is_told(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    needs_kernel("int8")
    planted = loading(lambda choice: choice.precision != "int8", clock.sleep)
    monkeypatch.setattr("ffn_export.tuning.search.loader", lambda runtime, threads: planted)
    fx.save(small(), tmp_path / "model.onnx")
    words = ["tune", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "tuned.onnx"), "--budget", "0.1", *QUICK]
    assert run(words) == 0
    assert "precision: int8" in capfd.readouterr().err
    assert (tmp_path / "tuned.onnx").is_file()


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Capture) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == ort_native.PACKAGE else found(name, *rest)
    )
    with pytest.raises(RuntimeUnavailableError, match="onnxruntime-ep-ffn is not installed"):
        fx.tune(fx.export("d2l-ffn"), "ort-native")
    assert run(["tune", "d2l-ffn", "-o", str(tmp_path), *QUICK]) == 3
    assert "onnxruntime-ep-ffn is not installed: native/README.md says how to build it" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_precision_is_not_given_to_what_chooses_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tuning chooses the precision: give it a budget and leave precision out"):
        fx.build(
            "d2l-ffn",
            directory=tmp_path,
            target="ort-native",
            precision="bf16",
            budget=0.01,
            tuning=fx.TuneOptions(budget=0.01),
        )
