"""ONNX Runtime on its CUDA execution provider only."""

from __future__ import annotations

from ffn_export.runtimes.ort_accelerator import Accelerator, OrtAccelerator

CUDA = Accelerator(
    "CUDA",
    "CUDAExecutionProvider",
    (
        ("use_tf32", "0"),  # products in TF32 have 10 bits of mantissa, too few for parity in float32
        # Without this option, the Skip… norms sum a row in its dtype, and compute the variance as the mean of squares
        # minus the squared mean. onnxruntime 1.31 ignores the option (its pull request 29388; on an H200 it changes
        # no digit): it sums in float32, by the same formula, which loses accuracy in float32 if the mean is large.
        ("enable_skip_layer_norm_strict_mode", "1"),
    ),
)


class OrtCuda(OrtAccelerator):
    """The runtime ``ort-cuda``."""

    name = "ort-cuda"
    by_default = True
    has_ort_kernels = True
    accelerator = CUDA
