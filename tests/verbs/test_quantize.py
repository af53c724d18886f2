"""``fx.quantize`` and ``ffn-export quantize``: judged against the model before, and written within the budget only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.core import onnx_file
from ffn_export.modules.block import FeedForwardBlock
from ffn_export.modules.gated import GatedFeedForward
from ffn_export.modules.norms import make_norm
from ffn_export.runtimes.ort_session import make_session
from ffn_export.runtimes.session_options import SessionSettings

INPUTS = {"x": "float32[batch,seq,64]"}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).eval()
    path = tmp_path_factory.mktemp("plain") / "m.onnx"
    onnx_file.save(fx.fuse(fx.export(module, INPUTS))[0], path)
    return path


@pytest.mark.slow
def test_it_is_judged_on_the_users_own_inputs(path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((2, 9, 64)).astype(np.float32)
    found = fx.quantize(path, samples={"x": x})
    assert found.passed
    (given,) = (case for case in found.parity.cases if case.values == "given")
    assert 1e-4 < given.outputs[0].actual.relative_l2 < 0.02
    assert found.parity.notes == ()
    assert [weight.shape for weight in found.report.weights] == [(64, 128), (128, 64)]


@pytest.mark.slow
def test_without_them_it_says_so(path: Path) -> None:
    found = fx.quantize(onnx_file.load(path))
    assert found.passed
    assert any("give samples" in note for note in found.parity.notes)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["quantize", "tune"])
def test_the_weights_of_a_model_in_memory_outlive_the_call(
    path: Path, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large weights lie in a file; what is returned must not point into one that is gone."""
    onnx_file.save(onnx_file.load(path), tmp_path / "external.onnx", external_above=0)
    monkeypatch.setattr(onnx_file, "_INLINE_BELOW_BYTES", 0)
    given = onnx_file.load(tmp_path / "external.onnx")
    quick = fx.TuneOptions(tokens=(1,), seconds=0.001)
    made = fx.quantize(given).model if verb == "quantize" else fx.tune(given, options=quick).model
    onnx_file.save(made, tmp_path / "out" / "made.onnx")
    x = np.random.default_rng(3).standard_normal((2, 9, 64)).astype(np.float32)
    before, after = (
        make_session(each, SessionSettings(), threads=1).run(None, {"x": x})[0]
        for each in (tmp_path / "external.onnx", tmp_path / "out" / "made.onnx")
    )
    assert np.linalg.norm(after - before) < 0.02 * np.linalg.norm(before)


@pytest.mark.slow
def test_build_and_quantize_judge_alike(tmp_path: Path) -> None:
    """On inputs far below the epsilon of a norm, few bits are further off than any budget: that is a warning."""
    torch.manual_seed(0)
    block = FeedForwardBlock(GatedFeedForward(64, 160, "silu"), make_norm("rms_norm", 64), "pre").eval()
    inputs = {"x": "float32[batch,seq,64]"}
    options = fx.QuantizationOptions(bits=8)
    built = fx.build(block, inputs, directory=tmp_path, name="b", quantization=options, budget=0.02, bench_budget=0)
    found = fx.quantize(fx.fuse(fx.export(block, inputs))[0], options, budget=0.02)
    assert built.parity is not None
    for parity in (built.parity, found.parity):
        assert parity.failures == ()
        assert any("values are extreme, and a budget is for ordinary ones" in each for each in parity.warnings)
    assert [case.case for case in built.parity.cases] == [case.case for case in found.parity.cases]
    for parity in (built.parity, found.parity):
        assert parity.sizes is not None
        assert parity.sizes.proven


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["scale", "block", "channel"])
def test_a_broken_quantised_model_fails_on_ordinary_values(path: Path, tmp_path: Path, wrong: str) -> None:
    model = fx.quantize(path).model
    packed, scales = (
        next(value for name, value in model.graph.initializers.items() if name.endswith(suffix))
        for suffix in ("_Q8", "_scales")
    )
    value = packed if wrong == "block" else scales
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    if wrong == "block":
        array[:, [0, 1]] = array[:, [1, 0]]
    elif wrong == "scale":
        array *= 1.5
    else:
        array[3] *= 4
    value.const_value = ir.Tensor(array, name=value.name)
    broken = tmp_path / "broken.onnx"
    onnx_file.save(model, broken)
    result = fx.verify(broken, path, runtimes=["ort-cpu"], tolerances=fx.Tolerances(relative_l2=0.02))
    assert any("normal" in failure for failure in result.failures)


@pytest.mark.slow
def test_over_the_budget_nothing_is_written(path: Path, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "q.onnx"
    assert run(["quantize", str(path), "-o", str(out), "--bits", "4"]) == 1
    assert not out.exists()
    assert f"{out} is not written: ort-cpu, " in capfd.readouterr().err
    assert run(["quantize", str(path), "-o", str(out), "--bits", "4", "--budget", "0.2", "--quiet"]) == 0
    assert out.stat().st_size < path.stat().st_size / 3


@pytest.mark.slow
@pytest.mark.traced
def test_what_is_written_is_verified_like_any_other(path: Path, tmp_path: Path, capfd: Capture) -> None:
    out, samples = tmp_path / "q.onnx", tmp_path / "x.npz"
    np.savez(samples, x=np.random.default_rng(3).standard_normal((2, 9, 64)).astype(np.float32))
    command = ["quantize", str(path), "-o", str(out), "--samples", str(samples), "--json", "-", "--accuracy-level", "0"]
    assert run(command) == 0
    said = capfd.readouterr()
    data = json.loads(said.out)
    assert (data["quantization"]["bits"], data["parity"]["passed"]) == (8, True)
    assert "warning: 8 bits at accuracy level 0" in said.err
    assert run(["verify", str(out), "--against", str(path), "--budget", "0.02", "--quiet"]) == 0
    assert run(["verify", str(out), "--against", str(path), "--quiet", "--failures", str(tmp_path / "kept")]) == 1
    assert run(["bench", str(out), "--quiet", "--tokens", "4"]) == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--block", "33"], "'33' is not one of '16', '32'"),
        (["--samples", "gone.npz"], "no such file: gone.npz"),
        (["--accuracy-level", "7"], "'7' is not one of '0', '1', '4'"),
    ],
)
def test_wrong_use_is_one_line(path: Path, tmp_path: Path, capfd: Capture, wrong: list[str], told: str) -> None:
    assert run(["quantize", str(path), "-o", str(tmp_path / "q.onnx"), *wrong, "--quiet"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert told in line


@pytest.mark.slow
def test_a_model_without_a_feed_forward_says_so(tmp_path: Path, capfd: Capture) -> None:
    linear = tmp_path / "linear.onnx"
    onnx_file.save(fx.export(torch.nn.Linear(64, 64).eval(), INPUTS), linear)
    command = ["quantize", str(linear), "-o", str(tmp_path / "q.onnx"), "--quiet"]
    assert run(command) == 2
    assert "there is no feed-forward (--all takes other products" in capfd.readouterr().err
    assert run([*command, "--all"]) == 0
