"""A weight that is a batch of one matrix is the matrix, where that changes no axis of any product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion import batch_of_one
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_same_function, model, operators

NUMBERS = ",".join(str(round(0.1 * (i % 7) - 0.3, 1)) for i in range(32))
CONSTANTS = f"float[1,8,4] w = {{{NUMBERS}}}, float[1,1,8,4] v = {{{NUMBERS}}}, float[4] b = {{1,2,3,4}}"
LAYER = "m = MatMul(x, w) s = Add(m, b) y = Relu(s)"
OUT = "float[batch,seq,4] y"


def test_a_batch_of_one_is_fused_as_a_matrix() -> None:
    fused, _ = assert_fuses(
        model(LAYER, CONSTANTS, outputs=OUT), ["Reshape", "FusedGemm", "Shape", "Concat", "Reshape"], "ort"
    )
    assert str(fused.graph.initializers["w"].shape) == "[8,4]"


@pytest.mark.parametrize(
    ("body", "x", "y"),
    [
        (LAYER, "float[seq,8] x", "float[o,seq,4] y"),  # the weight gives the product an axis
        ("m = MatMul(x, v) s = Add(m, b) y = Relu(s)", "float[batch,seq,8] x", "float[o,batch,seq,4] y"),
        (f"{LAYER} z = Neg(w)", "float[batch,seq,8] x", f"{OUT}, float[1,8,4] z"),
        (LAYER, "float[batch,seq,8] x, float[1,8,4] w", OUT),
        (LAYER, "float[batch,seq,8] x", f"{OUT}, float[1,8,4] w"),
    ],
)
def test_what_needs_its_axis_keeps_it(body: str, x: str, y: str) -> None:
    of = model(body, CONSTANTS, inputs=x, outputs=y)
    fused, _ = fuse(of, "ort")
    assert operators(fused) == operators(of)
    assert str(fused.graph.initializers["w" if "w)" in body else "v"].shape).startswith("[1,")
    assert_same_function(of, fused)


def test_a_weight_in_a_file_is_not_read(tmp_path: Path) -> None:
    array = np.arange(32, dtype=np.float32)
    (tmp_path / "weights").write_bytes(bytes(64) + array.tobytes())
    of = model("y = MatMul(x, w)", CONSTANTS, outputs=OUT)
    shape = ir.Shape((1, 8, 4))
    weight = of.graph.initializers["w"]
    weight.const_value = ir.ExternalTensor(
        "weights", 64, 128, ir.DataType.FLOAT, shape=shape, name="w", base_dir=tmp_path
    )
    batch_of_one.unwrap(of)
    assert isinstance(weight.const_value, ir.ExternalTensor)
    assert weight.const_value.raw is None
    assert np.array_equal(weight.const_value.numpy(), array.reshape(8, 4))
