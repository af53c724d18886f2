"""Factors by which 8-bit kernels smooth the channels of what they multiply."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.calibration.node_smoothing import smoothed
from ffn_export.cli.main import run
from ffn_export.core.types import Array
from ffn_export.runtimes.in_place import load_in_place
from ffn_export.runtimes.ort_native import INT8
from ffn_export.runtimes.ort_session import CPU, Provider
from ffn_export.tuning.candidates import Candidates
from ffn_export.tuning.choice import Choice
from tests.calibration.sources import module_of
from tests.native.provider import needs_kernel, needs_provider
from tests.tuning.planted import Clock, loading

X = np.random.default_rng(0).standard_normal((4, 16, 64), dtype=np.float32)
LARGE = [3, 40]
SOURCE = """
import torch
def large_channels():
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(64)
    layers = [torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 64)]
    with torch.no_grad():
        norm.weight[[3, 40]] *= 60  # as whole models have them
        layers[0].weight[:, [3, 40]] /= 30
        layers[0].weight[7] *= 40
        layers[2].weight[:, 7] /= 40
    return torch.nn.Sequential(norm, *layers)
"""


def large_channels() -> torch.nn.Module:
    return module_of(SOURCE, "large_channels")


def in_nodes(module: torch.nn.Module) -> ir.Model:
    exported = fx.export(module.eval(), (torch.from_numpy(X),))
    return fx.fuse(exported, target="ort-native")[0]


def feeds(model: ir.Model, x: Array = X) -> dict[str, Array]:
    return {str(model.graph.inputs[0].name): x}


def factors(model: ir.Model, name: str = "smoothing") -> list[list[float]]:
    return [list(node.attributes[name].as_floats()) for node in model.graph if name in node.attributes]


def output(model: ir.Model, x: Array, provider: Provider) -> Array:
    return next(iter(load_in_place(model, 1, provider).run(feeds(model, x)).values()))


@pytest.mark.slow
def test_large_channels_get_large_factors_behind_the_norm_and_in_the_hidden_layer() -> None:
    model = in_nodes(large_channels())
    made = smoothed(model, feeds(model), 1)
    (of_input,), (of_hidden,) = factors(made), factors(made, "hidden_smoothing")
    assert (len(of_input), len(of_hidden)) == (64, 96)
    assert sorted(np.argsort(of_input)[-2:]) == LARGE
    assert int(np.argmax(of_hidden)) == 7
    assert np.exp(np.log(of_input).mean()) == pytest.approx(1, rel=1e-5)
    assert not factors(model)  # the given model is not modified
    np.testing.assert_array_equal(output(made, X, CPU), output(model, X, CPU))


@pytest.mark.slow
def test_parts_of_one_input_share_its_factors() -> None:
    class Parts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            parts = [torch.nn.Linear(64, 32) for _ in range(3)]
            with torch.no_grad():
                for part in parts:
                    part.weight[:, LARGE] /= 30
            self.layers = torch.nn.ModuleList(parts)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(layer(x) for layer in self.layers)

    model = in_nodes(Parts())
    large = X.copy()
    large[..., LARGE] *= 60
    made = smoothed(model, feeds(model, large), 1)
    assert [node.op_type for node in made.graph] == ["Linear"]
    (found,) = factors(made)
    assert sorted(np.argsort(found)[-2:]) == LARGE


@pytest.mark.slow
def test_even_channels_get_none() -> None:
    torch.manual_seed(0)
    model = in_nodes(torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 64)))
    made = smoothed(model, feeds(model), 1)
    assert factors(made) == factors(made, "hidden_smoothing") == []


def test_few_rows_tell_too_little() -> None:
    model = in_nodes(large_channels())
    assert not factors(smoothed(model, feeds(model, X[:1]), 1))
    assert factors(smoothed(model, feeds(model, X[:2]), 1))


@needs_provider
def test_kernels_in_8_bits_are_twice_as_precise_with_them() -> None:
    needs_kernel("int8")
    model = in_nodes(large_channels())
    made = smoothed(model, feeds(model), 1)
    others = np.random.default_rng(1).standard_normal((8, 16, 64), dtype=np.float32)
    wanted = output(model, others, CPU)
    plain, smooth = (np.linalg.norm(output(each, others, INT8.provider) - wanted) for each in (model, made))
    assert smooth < plain / 2


def test_a_candidate_of_the_tuning_in_8_bits_states_them(tmp_path: Path) -> None:
    exported = fx.export(large_channels().eval(), (torch.from_numpy(X),))
    candidates = Candidates(exported, "ort-native", tmp_path, drawn=feeds(exported))
    made = {name: candidates.make(Choice(frozenset(), precision=name)).path for name in ("f32", "bf16", "int8")}
    assert [len(factors(ir.load(path))) for path in made.values()] == [0, 0, 1]


@needs_provider
@pytest.mark.slow
def test_a_model_that_is_tuned_to_8_bits_states_them(clock: Clock) -> None:
    needs_kernel("int8")
    planted = loading(lambda choice: choice.precision != "int8", clock.sleep)
    options = fx.TuneOptions((64,), 0.02, 0.05, samples={"x": X}, load=planted)
    exported = fx.export(large_channels().eval(), {"x": "float32[B,S,64]"})
    tuned = fx.tune(exported, "ort-native", options, threads=1)
    assert tuned.tuning.chosen.precision == "int8"
    assert len(factors(tuned.model)) == 1


@needs_provider
@pytest.mark.slow
def test_a_bundle_in_8_bits_states_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    needs_kernel("int8")
    monkeypatch.chdir(tmp_path)
    Path("channels.py").write_text(SOURCE)
    words = ["build", "channels:large_channels", "--input", "x:float32[B,S,64]", "--target", "ort-native", "-o", "out"]
    assert run([*words, "--precision", "int8", "--budget", "0.05", "--fast"]) == 0, capfd.readouterr().err
    assert len(factors(ir.load("out/large_channels/model.onnx"))) == 1
    assert fx.load(Path("out/large_channels")).info["precision"] == "int8"
