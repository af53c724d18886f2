from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.errors import UsageError
from ffn_export.latency.gate import latency_failures
from ffn_export.latency.result import LatencyResult, Measurement, Ratio
from ffn_export.latency.sizes import asked_sizes, default_sizes, token_count, token_sizes

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[LatencyResult], dict[str, Any]]:
    """Put a result in the place of a measurement; what it was asked for is returned."""

    def replace(result: LatencyResult) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def bench(model: Path, against: str | None, **options: Any) -> LatencyResult:
            asked.update(options, model=model, against=against)
            return result

        monkeypatch.setattr(fx, "bench", bench)
        return asked

    return replace


def measured(low: float, high: float) -> LatencyResult:
    ratio = Ratio("ort-cpu", "torch", (low + high) / 2, low, high)
    return LatencyResult("m.onnx", "torch", (Measurement({"batch": 1}, (), (ratio,)),))


@pytest.mark.slow
def test_a_bundle_is_timed_beside_its_source(bundle: Path, capfd: Capture) -> None:
    arguments = ["bench", str(bundle), "--tokens", "1", "--tokens", "5", "--runtime", "ort-cpu", "--json", "-"]
    assert run([*arguments, "--threads", "1"]) == 0
    out, err = capfd.readouterr()
    data = json.loads(out)
    assert [m["sizes"] for m in data["measurements"]] == [{"batch": 1, "seq": 1}, {"batch": 1, "seq": 5}]
    assert data["environment"]["threads"] == 1
    told = " ".join(err.split())
    assert all(words in told for words in ("batch=1,seq=5", "ort-cpu default"))
    verdicts = {ratio.verdict for each in LatencyResult.from_dict(data).measurements for ratio in each.ratios}
    assert ("over torch" in told) is (verdicts != {"inconclusive"})  # a column without any text is left out


def test_the_gate_asks_the_whole_interval(timed: Callable[..., Any], bundle: Path, capfd: Capture) -> None:
    timed(measured(0.9, 1.3))
    assert run(["bench", str(bundle), "--max-ratio", "1.0"]) == 0
    timed(measured(1.1, 1.3))
    assert run(["bench", str(bundle), "--max-ratio", "1.0"]) == 1
    assert "takes 1.20 x torch at batch=1, allowed 1" in capfd.readouterr().err
    assert run(["bench", str(bundle)]) == 0


def test_a_gate_that_nothing_was_measured_for_is_not_passed() -> None:
    nothing = LatencyResult("m.onnx", "torch", (), {"ort-cpu": "no kernel"})
    assert latency_failures(nothing, None) == ()
    assert latency_failures(nothing, 2.0) == ("nothing was timed beside PyTorch (ort-cpu: no kernel)",)


def test_max_ratio_of_a_bare_model_needs_a_source(timed: Callable[..., Any], bundle: Path, capfd: Capture) -> None:
    timed(LatencyResult("m.onnx", "", ()))
    assert run(["bench", str(bundle / "model.onnx"), "--max-ratio", "1"]) == 2
    assert "--against" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [(None, {"batch": 1, "seq": 7}), (["x:float32[n,t<=4,4]"], {"n": 1, "t": 4})],
    ids=["a preset", "inputs as given"],
)
def test_axes_are_named_by_the_source(bundle: Path, inputs: list[str] | None, sizes: dict[str, int]) -> None:
    model = bundle / "model.onnx"
    timed = fx.bench(model, "d2l-ffn-addnorm", inputs=inputs, tokens=[7], runtimes=["ort-cpu"], threads=1)
    assert [measurement.sizes for measurement in timed.measurements] == [sizes]


def test_without_its_source_a_bundle_is_timed_within_its_bounds(tmp_path: Path) -> None:
    inputs = {"x": "float32[batch,seq<=16,4]"}
    fx.build(torch.nn.Linear(4, 4), inputs, directory=tmp_path, name="short", dtype="float16", fast=True)
    result = fx.bench(tmp_path / "short", tokens=[100], runtimes=["ort-cpu"], threads=1)
    assert [each.sizes for each in result.measurements] == [{"batch": 1, "seq": 16}]


def test_tokens_and_sizes_are_not_asked_for_at_once(bundle: Path) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        fx.bench(bundle, tokens=[7], sizes=[{"batch": 1, "seq": 7}])


def test_tokens_are_the_last_symbolic_axis_of_each_input() -> None:
    both = ["ids:int64[batch,seq]", "lengths:int64[batch]", "decoder_ids:int64[batch,decoder_seq<=64]"]
    assert token_sizes(parse_inputs(both), 128) == {"batch": 1, "seq": 128, "decoder_seq": 64}
    assert token_sizes(parse_inputs(["x:float32[batch,seq,4]"]), 128) == {"batch": 1, "seq": 128}
    assert token_sizes(parse_inputs(["x:float32[n,4]"]), 128) == {"n": 128}
    assert token_sizes(parse_inputs(["x:float32[b,h,t<=64,4]"]), 128) == {"b": 1, "h": 1, "t": 64}
    assert token_sizes(parse_inputs(["x:float32[3,4]"]), 128) == {}
    assert token_sizes(parse_inputs(["ids:int64[b,s]", "frames:float32[b,t,8]"]), 128) == {"b": 1, "s": 128, "t": 128}
    cached = ["ids:int64[batch,seq]", "mask:int64[batch,past+seq]{mask}", "keys:float32[batch,2,past,8]"]
    assert token_sizes(parse_inputs(cached), 128) == {"batch": 1, "seq": 128, "past": 1}


@pytest.mark.parametrize(
    ("inputs", "sizes", "count"),
    [
        (["x:float32[batch,seq,8]"], {"batch": 2, "seq": 5}, 10),
        (["x:float32[32,seq,8]"], {"seq": 5}, 160),
        (["x:float32[1,7,8]"], {}, 7),
        (["x:float32[rows,8]"], {"rows": 9}, 9),
        (["ids:int64[b,s]", "decoder_ids:int64[b,t]"], {"b": 2, "s": 3, "t": 5}, 10),
        (["ids:int64[b,s]", "mask:bool[b,1,s,s]"], {"b": 2, "s": 3}, 6),
        (["pixels:float32[b,3,224,224]"], {"b": 2}, 2),
        (["ids:int64[b,s]", "mask:int64[b,p+s]{mask}", "keys:float32[b,2,p,8]"], {"b": 2, "s": 3, "p": 128}, 6),
        (["ids:int64[b,s]", "states:float32[b,t,8]"], {"b": 2, "s": 3, "t": 5}, 10),
    ],
)
def test_tokens_are_those_of_the_input_that_has_the_most(inputs: list[str], sizes: dict[str, int], count: int) -> None:
    assert token_count(parse_inputs(inputs), sizes) == count


def test_an_axis_that_is_alone_is_timed_at_three_lengths() -> None:
    assert default_sizes(parse_inputs(["x:float32[rows,8]"])) == [{"rows": 1}, {"rows": 128}, {"rows": 1024}]


@pytest.mark.parametrize(
    ("inputs", "tokens", "reason"), [(["x:float32[2,4]"], [7], "no axis"), (["x:float32[n,4]"], [-1], "tokens of -1")]
)
def test_tokens_that_cannot_be_timed_are_refused(inputs: list[str], tokens: list[int], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked_sizes(parse_inputs(inputs), None, tokens)


@pytest.mark.slow
def test_work_is_counted_whatever_the_axes_are_called(bundle: Path) -> None:
    inputs = ["x:float32[n,t<=4,4]"]
    timed = fx.bench(bundle / "model.onnx", "d2l-ffn-addnorm", inputs=inputs, tokens=[4], runtimes=["ort-cpu"])
    (measurement,) = timed.to_dict()["measurements"]
    assert measurement["tokens"] == 4
    for timing in measurement["timings"]:
        assert timing["gflops"] > 0
        assert timing["gemm_share"] > 0
        assert timing["memory_share"] > 0
        assert timing["tokens_per_second"] == pytest.approx(4 / timing["median"])
    assert {ratio["is_tie"] for ratio in measurement["ratios"]} <= {True, False}
    assert LatencyResult.from_dict(timed.to_dict()) == timed


def test_a_named_runtime_that_is_not_here_is_status_3(bundle: Path, capfd: Capture) -> None:
    assert run(["bench", str(bundle / "model.onnx"), "--runtime", "torch"]) == 3
    assert "runtime 'torch' is not available here" in capfd.readouterr().err
