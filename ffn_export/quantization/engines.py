"""Engines that take models with fixed scales, and their documented limits.

OpenVINO runs in the tests. The files for the others are checked by their structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """What an engine takes.

    Attributes:
        symmetric: Whether activations are signed and have no zero point.
        per_tensor: Whether a matrix has one scale; otherwise each column has one.
        outputs: Whether the output of a product is in 8 bits, too.
    """

    symmetric: bool = False
    per_tensor: bool = False
    outputs: bool = False


ENGINES: Mapping[str, Engine] = {
    "openvino": Engine(),
    "tensorrt": Engine(symmetric=True),  # "zero_point must be 0", NVIDIA's guide to explicit quantisation
    "coreml": Engine(symmetric=True),  # coremltools' linear quantisation
    # onnxruntime.quantization.execution_providers.qnn: no scale for each column of a MatMul, and every operator
    # between 8-bit values.
    "qnn": Engine(per_tensor=True, outputs=True),
}
