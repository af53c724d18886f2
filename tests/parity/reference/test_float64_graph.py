"""A graph in float64, with a vendor's operators too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from scipy import special

from ffn_export.exporter.source import Source
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.parity.reference.oracle import TorchOracle
from ffn_export.parity.reference.references import OnnxReference
from tests.parity import add_norms
from tests.runtimes.graphs import write


@pytest.mark.parametrize("make", [add_norms.layer_norm, add_norms.rms_norm])
def test_the_skip_operators_have_the_oracles_precision(make: Callable[[], object], tmp_path: Path) -> None:
    source, path = add_norms.fused(make, "ort", tmp_path)  # type: ignore[arg-type]
    assert b"Skip" in path.read_bytes()
    feeds = {name: np.random.default_rng(0).standard_normal((3, 1024)).astype(np.float32) for name in add_norms.INPUTS}
    (have,), (want,) = GraphOracle(path).run(feeds), TorchOracle(source).run(feeds)
    assert have.dtype == np.float64
    # The epsilon of an attribute is a float32.
    assert np.abs(have - want).max() < 1e-10


def test_a_fused_graph_is_judged_against_a_fused_graph(
    fused_file: Callable[..., Path], source: Callable[[str], Source]
) -> None:
    path = fused_file("d2l-ffn-addnorm", "ort")
    assert b"SkipLayerNormalization" in path.read_bytes()
    reference = OnnxReference(path, 1)
    x = np.ones((2, 3, 4), np.float32)
    truth = (reference.oracle({"x": x}) or {})["y"]
    (want,) = TorchOracle(source("d2l-ffn-addnorm")).run({"x": x})
    assert np.abs(truth - want).max() < 1e-10
    result = run_cases(fused_file("d2l-ffn-addnorm", "portable"), reference, runtimes=["ort-cpu"])
    assert result.passed, result.failures
    assert any(output.baseline.ulps > 0 for case in result.cases for output in case.outputs)


def test_an_operator_without_a_formula_is_refused(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[N] x) => (float[N] y)", "y = com.microsoft.NoSuchOperator(x)")
    assert artifact.model_path is not None
    with pytest.raises(NotImplementedError, match="NoSuchOperator"):
        GraphOracle(artifact.model_path)


def test_integers_in_external_data_are_read_too(tmp_path: Path) -> None:
    text = "p = Gather(table, places) y = Add(x, p)"
    artifact = write(tmp_path, "(float[4] x) => (float[4] y)", text)
    assert artifact.model_path is not None
    model = onnx.load(artifact.model_path)
    for name, array in (("table", np.arange(900, dtype=np.float32)), ("places", np.arange(4))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = tmp_path / "external.onnx"
    onnx.save(model, path, save_as_external_data=True, location="external.onnx.data", size_threshold=0)
    (y,) = GraphOracle(path).run({"x": np.ones(4, np.float32)})
    assert y.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("operator", ["LayerNormalization", "RMSNormalization"])
def test_a_norm_that_says_what_it_stashes_in(operator: str, tmp_path: Path) -> None:
    text = f"y = {operator} <epsilon = 1.0e-5, stash_type = 1> (x, x)"
    artifact = write(tmp_path, "(float[4] x) => (float[4] y)", text)
    assert artifact.model_path is not None
    (y,) = GraphOracle(artifact.model_path).run({"x": np.arange(4, dtype=np.float32)})
    assert y.dtype == np.float64
    assert np.isfinite(y).all()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("y = Erf(x)", special.erf),
        ("y = Gelu(x)", lambda x: x * special.ndtr(x)),
        (
            'y = Gelu<approximate = "tanh">(x)',
            lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        ),
    ],
)
def test_activations_have_the_digits_of_float64(body: str, want: Callable[[Any], Any], tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[N] x) => (float[N] y)", body)
    assert artifact.model_path is not None
    x = np.linspace(-4, 4, 33, dtype=np.float32)
    (y,) = GraphOracle(artifact.model_path).run({"x": x})
    assert np.abs(y - want(x.astype(np.float64))).max() < 1e-15
