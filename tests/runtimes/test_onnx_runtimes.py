"""What every runtime that reads an ONNX file has in common: names, sizes, refusals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ffn_export.core.drawing import draw_all
from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.exporter.source import Source
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.registry import RUNTIMES
from ffn_export.runtimes.torch_eager import TorchEager
from tests.runtimes.graphs import write

EXTRAS = ("openvino", "tract")
ALL = ("ort-cpu", "reference", *EXTRAS)
SIZES = ((2, 3), (1, 1), (5, 7), (3, 257))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("preset", ["d2l-ffn", "d2l-ffn-addnorm", "t5-ffn"])
def test_one_loaded_model_serves_all_sizes(
    preset: str, name: str, source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    artifact = Artifact(fused_file(preset, "portable"), source(preset))
    runner, torch = RUNTIMES[name].load(artifact, 1), TorchEager().load(artifact, 1)
    # d2l-ffn-addnorm normalises over its sequence of 3.
    sizes = SIZES if preset != "d2l-ffn-addnorm" else tuple((batch, 3) for batch, _ in SIZES)
    for batch, seq in sizes:
        feeds = draw_all(source(preset).inputs, {"batch": batch, "seq": seq}, seed=batch)
        actual, expected = runner.run(feeds), torch.run(feeds)
        assert list(actual) == list(expected) == ["y"]
        assert actual["y"].dtype == np.float32
        np.testing.assert_allclose(actual["y"], expected["y"], rtol=0, atol=1e-5 * np.abs(expected["y"]).max())
    assert runner.precision() == "float32"
    assert sum(runner.placement().values()) > 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("sizes", [(0, 3), (4, 0)], ids=str)
def test_nothing_in_gives_nothing_of_the_right_shape(
    name: str, sizes: tuple[int, int], fused_file: Callable[..., Path]
) -> None:
    runner = RUNTIMES[name].load(Artifact(fused_file("d2l-ffn", "portable")), 1)
    assert runner.run({"x": np.ones((*sizes, 4), np.float32)})["y"].shape == (*sizes, 4)


@pytest.mark.parametrize("name", ALL)
def test_a_prepared_call_gives_the_same_every_time(name: str, fused_file: Callable[..., Path]) -> None:
    runner = RUNTIMES[name].load(Artifact(fused_file("d2l-ffn", "portable")), 1)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4), np.float32)}
    call = runner.prepare(feeds)
    call()
    before = runner.run(feeds)["y"]
    call()
    assert np.array_equal(before, runner.run(feeds)["y"])


@pytest.mark.parametrize("name", ALL)
def test_outputs_have_the_names_and_the_order_of_the_graph(name: str, tmp_path: Path) -> None:
    signature = "(float[N,2] x, float scale) => (float[N,2] last, float[N,2] first, float[N,2] middle)"
    artifact = write(tmp_path, signature, "first = Relu(x) middle = Mul(first, scale) last = Add(middle, x)")
    feeds = {"scale": np.array(3, np.float32), "x": np.array([[-1, 2]], np.float32)}
    result = RUNTIMES[name].load(artifact, 1).run(feeds)
    assert {key: value.tolist() for key, value in result.items()} == {
        "last": [[-1, 8]],
        "first": [[0, 2]],
        "middle": [[0, 6]],
    }
    assert list(result) == ["last", "first", "middle"]


@pytest.mark.parametrize("name", ["openvino", "tract"])
@pytest.mark.parametrize(
    "x", [np.ones((2, 4)), np.ones((2, 5), np.float32), np.ones(4, np.float32)], ids=["dtype", "size", "rank"]
)
def test_what_does_not_fit_is_one_line(name: str, x: np.ndarray, tmp_path: Path) -> None:
    runner = RUNTIMES[name].load(write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = Relu(x)"), 1)
    with pytest.raises(FfnExportError) as caught:
        runner.run({"x": x})
    assert "\n" not in str(caught.value)
    assert "acktrace" not in str(caught.value)


@pytest.mark.parametrize("name", EXTRAS)
def test_without_the_package_it_says_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = Relu(x)")
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(RuntimeUnavailableError, match=rf"is not installed .*pip install 'ffn-export\[{name}\]'"):
        RUNTIMES[name].load(artifact, 1)


@pytest.mark.parametrize("name", EXTRAS)
def test_without_a_model_there_is_nothing_to_run(name: str) -> None:
    assert RUNTIMES[name].unavailable(Artifact()) == "there is no ONNX model to run"


@pytest.mark.parametrize("name", ["openvino", "tract", "ort-cpu"])
def test_an_operator_that_is_not_known_makes_it_unavailable(name: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[3,3] x) => (float[3,3] y)", "y = com.microsoft.NoSuchOperator(x)")
    with pytest.raises(FfnExportError, match="NoSuchOperator") as caught:
        RUNTIMES[name].load(artifact, 1)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, RuntimeUnavailableError) == (name != "ort-cpu")  # a session says: invalid model


@pytest.mark.parametrize("name", EXTRAS)
def test_float64_is_not_computed_in_less(name: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, "(double[N,4] x) => (double[N,4] y)", "y = Relu(x)")
    with pytest.raises(RuntimeUnavailableError, match="float64"):
        RUNTIMES[name].load(artifact, 1)


@pytest.mark.parametrize("name", EXTRAS)
def test_nothing_is_written_to_the_terminal(
    name: str, fused_file: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    RUNTIMES[name].load(Artifact(fused_file("d2l-ffn", "portable")), 1).run({"x": np.ones((1, 2, 4), np.float32)})
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")
