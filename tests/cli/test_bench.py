from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ffn_export import api
from ffn_export.cli.main import run
from ffn_export.errors import UsageError
from ffn_export.exporter.tensor_spec import parse_inputs
from ffn_export.latency.gate import latency_failures
from ffn_export.latency.result import LatencyResult, Measurement, Ratio
from ffn_export.latency.sizes import token_sizes

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[LatencyResult], dict[str, Any]]:
    """Put a result in the place of a measurement; what it was asked for is returned."""

    def replace(result: LatencyResult) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def bench(model: Path, against: str | None, **options: Any) -> LatencyResult:
            asked.update(options, model=model, against=against)
            return result

        monkeypatch.setattr(api, "bench", bench)
        return asked

    return replace


def measured(low: float, high: float) -> LatencyResult:
    ratio = Ratio("ort-cpu", "torch", (low + high) / 2, low, high)
    return LatencyResult("m.onnx", "torch", (Measurement({"batch": 1}, (), (ratio,)),))


def test_a_bundle_is_timed_beside_its_source(bundle: Path, capfd: Capture) -> None:
    arguments = ["bench", str(bundle), "--tokens", "1", "--tokens", "5", "--runtime", "ort-cpu", "--json", "-"]
    assert run([*arguments, "--threads", "1"]) == 0
    out, err = capfd.readouterr()
    data = json.loads(out)
    assert [m["sizes"] for m in data["measurements"]] == [{"batch": 1, "seq": 1}, {"batch": 1, "seq": 5}]
    assert data["environment"]["threads"] == 1
    for words in ("time over torch", "batch=1,seq=5", "ort-cpu"):
        assert words in err


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


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [(None, {"batch": 1, "seq": 7}), (["x:float32[n,t<=4,4]"], {"n": 1, "t": 4})],
    ids=["a preset", "inputs as given"],
)
def test_axes_are_named_by_the_source(bundle: Path, inputs: list[str] | None, sizes: dict[str, int]) -> None:
    model = bundle / "model.onnx"
    timed = api.bench(model, "d2l-ffn-addnorm", inputs=inputs, tokens=[7], runtimes=["ort-cpu"], threads=1)
    assert [measurement.sizes for measurement in timed.measurements] == [sizes]


def test_tokens_and_sizes_are_not_asked_for_at_once(bundle: Path) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        api.bench(bundle, tokens=[7], sizes=[{"batch": 1, "seq": 7}])


def test_tokens_are_the_last_symbolic_axis() -> None:
    assert token_sizes(parse_inputs(["x:float32[batch,seq,4]"]), 128) == {"batch": 1, "seq": 128}
    assert token_sizes(parse_inputs(["x:float32[n,4]"]), 128) == {"n": 128}
    assert token_sizes(parse_inputs(["x:float32[b,h,t<=64,4]"]), 128) == {"b": 1, "h": 1, "t": 64}
    assert token_sizes(parse_inputs(["x:float32[3,4]"]), 128) == {}


def test_a_named_runtime_that_is_not_here_is_status_3(bundle: Path, capfd: Capture) -> None:
    assert run(["bench", str(bundle / "model.onnx"), "--runtime", "torch"]) == 3
    assert "runtime 'torch' is not available here" in capfd.readouterr().err
