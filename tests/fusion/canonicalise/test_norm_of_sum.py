"""A norm of a sum runs in a session of ONNX Runtime as it is opened by default, and gives the same numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from tests.fusion.graphs import Array, feeds, model, operators, run

TWO = "float[batch,seq,8] x, float[batch,seq,8] r"
ROW = """float[8] w = {1,2,3,4,5,6,7,8}, float[8] c = {8,7,6,5,4,3,2,1}, float[1] one = {1.5}, float[1] half = {0.5},
         float[1,8] two = {1,2,3,4,5,6,7,8}"""


def run_by_default(of: ir.Model, given: dict[str, Array]) -> list[Array]:
    """Run in a session as users open it."""
    session = onnxruntime.InferenceSession(ir.to_proto(of).SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "norm",
    [
        "y = LayerNormalization(h, one)",
        "y = LayerNormalization(h, one, half)",
        "y = LayerNormalization<epsilon = 0.1>(h, w, half)",
        "y = LayerNormalization<axis = 1>(h, w)",
        "y = LayerNormalization<axis = -2>(h, one)",
        "y = LayerNormalization<axis = 0>(h, w, c)",
        "n = LayerNormalization<axis = 1>(h, w) y = Add(n, h)",
        "n, m = LayerNormalization(h, one) y = Add(n, m)",
    ],
)
def test_runs_at_the_default_level(norm: str, target: str) -> None:
    of = model(f"h = Add(x, r) {norm}", ROW, inputs=TWO)
    fused, _ = fuse(of, target)
    given = feeds(of)
    np.testing.assert_allclose(run_by_default(fused, given)[0], run(of, given)[0], rtol=1e-4, atol=1e-5)


def test_single_number_is_written_out() -> None:
    fused, report = fuse(model("h = Add(x, r) y = LayerNormalization(h, one)", ROW, inputs=TWO), "portable")
    assert operators(fused) == ["Add", "LayerNormalization"]
    scale = fused.graph.node(1).inputs[1]
    assert scale is not None
    assert list(scale.shape or ()) == [8]
    assert report.rules == {"norm-of-sum": 1}


def test_other_axes_are_kept_from_the_optimiser() -> None:
    fused, _ = fuse(model("h = Add(x, r) y = LayerNormalization<axis = 1>(h, w)", ROW, inputs=TWO), "portable")
    assert operators(fused) == ["Sum", "LayerNormalization"]


@pytest.mark.parametrize(
    "body",
    [
        "h = Add(x, r) y = LayerNormalization(h, w, c)",
        "h = Mul(x, r) y = LayerNormalization<axis = 1>(h, w)",
        "h = Add(x, r) y = LayerNormalization<axis = 1>(h, two)",
    ],
)
def test_what_the_optimiser_keeps_is_left_alone(body: str) -> None:
    of = model(body, ROW, inputs=TWO)
    fused, report = fuse(of, "portable")
    assert operators(fused) == operators(of)
    assert report.rules == {}
