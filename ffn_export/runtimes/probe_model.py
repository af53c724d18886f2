"""A layer that doubles its input, as a module and an ONNX file, to test whether a runtime works here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx import parser

from ffn_export.exporter.source import from_module
from ffn_export.runtimes.base import Artifact, Runtime
from ffn_export.runtimes.ort_native import OrtNative
from ffn_export.runtimes.session_options import NO_OPTIMIZER

_MODEL = """<ir_version: 10, opset_import: ["": 20]>
trial (float[batch, 4] x) => (float[batch, 4] y) <float[4, 4] double = {2,0,0,0, 0,2,0,0, 0,0,2,0, 0,0,0,2}>
{ y = MatMul(x, double) }"""
# The same for what is not negative, as a feed-forward: the native provider claims nothing else.
_FEED_FORWARD = """<ir_version: 10, opset_import: ["": 20]>
trial (float[batch, 4] x) => (float[batch, 4] y) <float[4, 4] double = {2,0,0,0, 0,2,0,0, 0,0,2,0, 0,0,0,2},
  float[4, 4] same = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}>
{ doubled = MatMul(x, double) hidden = Relu(doubled) y = MatMul(hidden, same) }"""


class Trial:
    """A trial that doubles its input on any runtime."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        path = directory / "trial.onnx"
        onnx.save(parser.parse_model(_MODEL), path)
        layer = torch.nn.Linear(4, 4, bias=False).eval()
        with torch.no_grad():
            layer.weight.copy_(2 * torch.eye(4))
        self.artifact = Artifact(path, from_module(layer, {"x": "float32[batch,4]"}), NO_OPTIMIZER)

    def run(self, runtime: Runtime) -> str:
        """Run on one runtime, and return its placement and precision in one line.

        Raises:
            RuntimeUnavailableError: If the runtime cannot run here; the message is the reason.
            RuntimeError: If the result is wrong.
        """
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        artifact = self._one_node() if isinstance(runtime, OrtNative) else self.artifact
        runner = runtime.load(artifact, 1)
        (result,) = runner.run({"x": x}).values()
        if not np.allclose(result, 2 * x, rtol=0.01):  # in 8 bits, too
            raise RuntimeError(f"twice {x.tolist()} came out as {result.tolist()}")
        return f"ran a model on {', '.join(runner.placement())} in {runner.precision()}"

    def _one_node(self) -> Artifact:
        """Write the feed-forward as the one node that the native provider claims."""
        from ffn_export.fusion.pipeline import fuse

        outlined, _ = fuse(ir.from_onnx_text(_FEED_FORWARD), "ort-native")
        path = self._directory / "feed_forward.onnx"
        onnx.save(ir.to_proto(outlined), path)
        return Artifact(path, None, NO_OPTIMIZER)
