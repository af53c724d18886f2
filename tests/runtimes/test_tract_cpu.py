"""tract: what its profile proves, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.tract_cpu import Tract, TractRunner
from tests.runtimes.graphs import write


@pytest.mark.slow
def test_its_own_profile_says_what_it_computed_in(fused_file: Callable[..., Path]) -> None:
    runner = Tract().load(Artifact(fused_file("t5-ffn", "portable")), 1)
    assert runner.precision() == "float32"
    assert runner.placement() == {"CPU, one thread": 11}


def test_a_node_in_another_dtype_is_found() -> None:
    class Runnable:
        """A model whose profile holds a node in float16: tract makes none of a graph in float32."""

        def profile_json(self, inputs: None) -> str:
            nodes = [
                {"op_name": "OptMatMul", "node_name": "a", "cost": {"FMA(F32)": "8*(batch)"}},
                {"op_name": "OptMatMul", "node_name": "b", "cost": {"FMA(F16)": "8*(batch)"}},
            ]
            return json.dumps({"nodes": nodes})

    with pytest.raises(RuntimeUnavailableError, match="computes in float16, float32, not in float32 alone"):
        TractRunner(Runnable(), ["x"], ["y"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_refused(dtype: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, f"({dtype}[N,4] x) => ({dtype}[N,4] y)", "y = Relu(x)")
    with pytest.raises(RuntimeUnavailableError, match=f"float32 alone, and the graph has {dtype}"):
        Tract().load(artifact, 1)


def test_an_axis_without_a_name_is_one_that_it_cannot_follow(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[?,4] x) => (float[?,4] y)", "y = Relu(x)")
    with pytest.raises(RuntimeUnavailableError, match="without a determined fact") as caught:
        Tract().load(artifact, 1)
    assert "\n" not in str(caught.value)


def test_an_operator_of_microsoft_that_it_lacks_is_named(tmp_path: Path) -> None:
    body = 'y = com.microsoft.FusedGemm <activation = "Relu"> (x, x)'
    with pytest.raises(RuntimeUnavailableError, match=r"Unimplemented\(FusedGemm\)"):
        Tract().load(write(tmp_path, "(float[4,4] x) => (float[4,4] y)", body), 1)


def test_an_operator_of_microsoft_that_it_knows_is_run(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = com.microsoft.QuickGelu <alpha = 1.7> (x)")
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(Tract().load(artifact, 1).run({"x": x})["y"], x / (1 + np.exp(-1.7 * x)), atol=1e-6)


def test_integers_go_in_and_out(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[N,4] x, int64[M] i) => (float[M,4] y)", "y = Gather <axis = 0> (x, i)")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    result = Tract().load(artifact, 1).run({"i": np.array([1, 0, 1]), "x": x})
    assert np.array_equal(result["y"], x[[1, 0, 1]])
