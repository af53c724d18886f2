"""ONNX Runtime on its CUDA execution provider alone."""

from __future__ import annotations

from ffn_export.runtimes.ort_accelerator import Accelerator, OrtAccelerator

CUDA = Accelerator(
    "CUDA",
    "CUDAExecutionProvider",
    (
        ("use_tf32", "0"),  # float32 products in TF32 have 10 bits of mantissa: no parity in float32
        # Without it the Skip… norms add up a row in the dtype of the row, as the mean of squares less the squared
        # mean. 1.31 ignores it (onnxruntime's pull request 29388; on an H200 it changes no digit): there they add
        # up in float32, still by that formula, which costs float32 a large mean.
        ("enable_skip_layer_norm_strict_mode", "1"),
    ),
)


class OrtCuda(OrtAccelerator):
    """The runtime ``ort-cuda``."""

    name = "ort-cuda"
    by_default = True
    accelerator = CUDA
