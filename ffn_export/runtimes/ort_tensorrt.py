"""ONNX Runtime on its TensorRT execution provider only, in full float32."""

from __future__ import annotations

import os

from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_accelerator import Accelerator, OrtAccelerator

TENSORRT = Accelerator(
    "TensorRT",
    "TensorrtExecutionProvider",
    # Build engines in the dtypes of the graph. These are off by default, but an environment variable may turn them on.
    (("trt_fp16_enable", "0"), ("trt_bf16_enable", "0"), ("trt_int8_enable", "0")),
)
_NO_TF32 = ("NVIDIA_TF32_OVERRIDE", "0")


class OrtTensorrt(OrtAccelerator):
    """The runtime ``ort-tensorrt``."""

    name = "ort-tensorrt"
    by_default = False  # building an engine for every range of sizes takes minutes
    accelerator = TENSORRT

    def unavailable(self, artifact: Artifact) -> str | None:
        """Check as for every accelerator, and that TF32 is off.

        The provider has no option for TF32. Only an environment variable of NVIDIA's libraries turns it off.
        """
        reason = super().unavailable(artifact)
        variable, value = _NO_TF32
        if reason is None and os.environ.get(variable) != value:
            return f"TensorRT computes float32 products in TF32: set {variable}={value} before the process starts"
        return reason
