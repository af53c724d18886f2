"""Where each runtime is. None is imported here, so that help texts can name them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ffn_export.errors import UsageError

# Name -> ``module:object`` in this package: a class without arguments, or a runtime.
LISTED: Mapping[str, str] = {
    "ort-cpu": "ort_cpu:OrtCpu",
    "ort-cuda": "ort_cuda:OrtCuda",
    "ort-tensorrt": "ort_tensorrt:OrtTensorrt",
    "ort-native": "ort_native:FLOAT32",
    "ort-native-bf16": "ort_native:BFLOAT16",
    "ort-native-int8": "ort_native:INT8",
    "reference": "reference:OnnxEvaluator",
    "torch": "torch_eager:TorchEager",
    "torch-compile": "torch_compiled:TorchCompiled",
    "torch-cuda": "torch_cuda:TorchCuda",
    "openvino": "openvino_cpu:FLOAT32",
    "openvino-bf16": "openvino_cpu:BFLOAT16",
    "tract": "tract_cpu:Tract",
}


def check_list(names: object) -> None:
    """Check that names of runtimes are given as a list, not as one text.

    Raises:
        UsageError: If they are not.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UsageError(f"runtimes are a list of names such as ['ort-cpu'], got {names!r}")
