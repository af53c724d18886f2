"""ONNX Runtime's own session options, where it survives them."""

from __future__ import annotations

import subprocess
import sys

import onnx_ir as ir
import pytest

from ffn_export.runtimes.default_session import default_session
from ffn_export.runtimes.session_options import ORT_DEFAULT

# A process of its own: onnxruntime 1.31 ends it if the options are its own.
_RUN = """
import torch, ffn_export as fx
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True).eval().half()
inputs = {"src": "float16[batch>=1,seq>=1,16]"}
model, report = fx.fuse(fx.export(layer, inputs), "ort-cpu")
print(len(fx.bench(model, layer, inputs=inputs, runtimes=["ort-cpu"], tokens=[3]).measurements))
"""


@pytest.mark.integration
def test_attention_in_float16_is_fused_and_timed() -> None:
    done = subprocess.run([sys.executable, "-c", _RUN], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr[-2000:]


@pytest.mark.parametrize(("dtype", "is_own"), [("FLOAT", True), ("FLOAT16", False)])
def test_only_float16_leaves_an_optimiser_out(dtype: str, is_own: bool) -> None:
    x = ir.val("x", ir.DataType[dtype], ["n"])
    node = ir.node("Relu", [x])
    model = ir.Model(ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 20}), ir_version=10)
    assert (default_session(model) == ORT_DEFAULT) == is_own
