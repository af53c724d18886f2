"""A linear layer as a module and an ONNX file, to test whether a runtime works here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import parser

from ffn_export.exporter.source import from_module
from ffn_export.runtimes.base import Artifact, Runtime
from ffn_export.runtimes.session_options import NO_OPTIMIZER

_MODEL = """<ir_version: 10, opset_import: ["": 20]>
trial (float[batch, 4] x) => (float[batch, 4] y) <float[4, 4] double = {2,0,0,0, 0,2,0,0, 0,0,2,0, 0,0,0,2}>
{ y = MatMul(x, double) }"""


class Trial:
    """A trial that doubles its input on any runtime.

    Args:
        directory: Directory for the ONNX file.
    """

    def __init__(self, directory: Path) -> None:
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
        runner = runtime.load(self.artifact, 1)
        (result,) = runner.run({"x": x}).values()
        if not np.array_equal(result, 2 * x):
            raise RuntimeError(f"twice {x.tolist()} came out as {result.tolist()}")
        return f"ran a model on {', '.join(runner.placement())} in {runner.precision()}"
