"""All runtimes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.runtimes import openvino_cpu, ort_native
from ffn_export.runtimes.base import Runtime
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.ort_cuda import OrtCuda
from ffn_export.runtimes.ort_tensorrt import OrtTensorrt
from ffn_export.runtimes.reference import OnnxEvaluator
from ffn_export.runtimes.torch_compiled import TorchCompiled
from ffn_export.runtimes.torch_cuda import TorchCuda
from ffn_export.runtimes.torch_eager import TorchEager
from ffn_export.runtimes.tract_cpu import Tract

_ALL: tuple[Runtime, ...] = (
    OrtCpu(),
    OrtCuda(),
    OrtTensorrt(),
    ort_native.FLOAT32,
    ort_native.BFLOAT16,
    ort_native.INT8,
    OnnxEvaluator(),
    TorchEager(),
    TorchCompiled(),
    TorchCuda(),
    openvino_cpu.FLOAT32,
    openvino_cpu.BFLOAT16,
    Tract(),
)

RUNTIMES: Mapping[str, Runtime] = {runtime.name: runtime for runtime in _ALL}


def get_runtimes(names: Sequence[str]) -> list[Runtime]:
    """Return the runtimes of these names.

    Raises:
        UsageError: A name is unknown, or ``names`` is a single string.
    """
    if isinstance(names, str):
        raise UsageError(f"runtimes are a list of names: take [{names!r}]")
    return [get_runtime(name) for name in names]


def get_runtime(name: str) -> Runtime:
    """Return the runtime of this name.

    Raises:
        UsageError: The name is unknown.
    """
    if name not in RUNTIMES:
        raise UsageError(f"unknown runtime {name!r};{did_you_mean(name, RUNTIMES)} known are {', '.join(RUNTIMES)}")
    return RUNTIMES[name]
