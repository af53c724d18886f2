"""Loops of ONNX's reference evaluator are those of the standard, as ONNX Runtime computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ffn_export.core.types import Array
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from tests.runtimes.graphs import write

# What it carries, and what it gathers: of each iteration a matrix and a number.
_LOOP = """
total, rows, sums = Loop ({trips}, {going}, x) <body = body (int64 i, bool go, float[2,3] a)
    => (bool goes, float[2,3] b, float[2,3] row, float s) {{
    one = Constant <value_float = 1.0> ()
    b = Add(a, one)
    row = Mul(a, x)
    s = ReduceSum <keepdims = 0> (b)
    most = Constant <value_float = 60.0> ()
    goes = Less(s, most)
}}>"""


@pytest.mark.parametrize(
    ("trips", "going", "n", "starts"),
    [
        ("trips", "going", 4, True),
        ("trips", "going", 4, False),
        ("trips", "", 3, True),  # no condition is none that could be false
        ("trips", "", 0, True),
        ("", "going", 0, True),  # its own condition ends it
        ("trips", "going", 100, True),
    ],
)
def test_a_loop_is_that_of_the_standard(trips: str, going: str, n: int, *, starts: bool, tmp_path: Path) -> None:
    signature = "(float[2,3] x, int64 trips, bool going) => (float[2,3] total, float[N,2,3] rows, float[N] sums)"
    artifact = write(tmp_path, signature, _LOOP.format(trips=trips, going=going))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    feeds: dict[str, Array] = {"x": x, "trips": np.array(n, np.int64), "going": np.array(starts)}
    expected, found = (runtime.load(artifact, 1).run(feeds) for runtime in (OrtCpu(), OnnxEvaluator()))
    assert artifact.model_path is not None
    wide = dict(zip(expected, GraphOracle(artifact.model_path).run(feeds), strict=True))
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(wide[name], array)
        assert wide[name].shape == array.shape
