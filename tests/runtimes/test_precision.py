from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.core import onnx_file
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.precision import described, graph_dtypes
from tests.runtimes.graphs import write

VECTOR = "(float[N] x) => (float[N] y)"


@pytest.mark.parametrize(
    ("signature", "body", "dtypes"),
    [
        ("(float[N,4] x) => (float[N,4] y)", "y = Relu(x)", "float32"),
        ("(double[N,4] x) => (double[N,4] y)", "y = Relu(x)", "float64"),
        ("(int64[N] x) => (int64[N] y)", "y = Add(x, x)", "no floating-point numbers"),
        # Half precision that no input and no output shows.
        (VECTOR, "h = Cast <to = 10> (x) r = Relu(h) y = Cast <to = 1> (r)", "float16, float32"),
        (VECTOR, "h = Cast <to = 16> (x) y = Cast <to = 1> (h)", "bfloat16, float32"),
        (
            "(int64[2] x) => (int64[N] y)",
            "f = ConstantOfShape <value = double[1] {0}> (x) y = Cast <to = 7> (f)",
            "float64",
        ),
        (f"{VECTOR} <float16[1] w = {{1}}>", "f = Cast <to = 1> (w) y = Add(x, f)", "float16, float32"),
    ],
)
def test_every_dtype_that_a_graph_states_is_found(signature: str, body: str, dtypes: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, signature, body)
    assert artifact.model_path is not None
    assert described(graph_dtypes(onnx_file.load(artifact.model_path))) == dtypes


def test_a_session_computes_in_what_the_graph_states(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float16[N,4] x) => (float16[N,4] y)", "y = Relu(x)")
    assert OrtCpu().load(artifact, 1).precision() == "float16"
