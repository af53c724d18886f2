"""ONNX Runtime on its TensorRT execution provider alone, in full float32."""

from __future__ import annotations

import os

from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_accelerator import Accelerator, OrtAccelerator

TENSORRT = Accelerator(
    "TensorRT",
    "TensorrtExecutionProvider",
    # Engines in the dtypes of the graph: these are off by default, and an environment variable may turn them on.
    (("trt_fp16_enable", "0"), ("trt_bf16_enable", "0"), ("trt_int8_enable", "0")),
)
_NO_TF32 = ("NVIDIA_TF32_OVERRIDE", "0")


class OrtTensorrt(OrtAccelerator):
    """The runtime ``ort-tensorrt``."""

    name = "ort-tensorrt"
    by_default = False  # it builds an engine for every range of sizes: minutes
    accelerator = TENSORRT

    def unavailable(self, artifact: Artifact) -> str | None:
        """As every accelerator; and the provider has no option for TF32, only NVIDIA's libraries have, by this."""
        reason = super().unavailable(artifact)
        variable, value = _NO_TF32
        if reason is None and os.environ.get(variable) != value:
            return f"TensorRT computes float32 products in TF32: set {variable}={value} before the process starts"
        return reason
