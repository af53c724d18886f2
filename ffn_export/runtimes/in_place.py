"""Run a model a few times with its weights read where they are, in memory or in their file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

from ffn_export.core import freed
from ffn_export.core.onnx_file import weight_bytes
from ffn_export.runtimes.model_files import ModelFiles
from ffn_export.runtimes.ort_session import CPU, OrtRunner, Provider, make_session
from ffn_export.runtimes.session_options import NO_OPTIMIZER, UNPACKED


def load_in_place(
    model: ir.Model, threads: int, provider: Provider = CPU, *, ends: bool = False, packed: bool = False
) -> OrtRunner:
    """Load a model in ONNX Runtime, whose session holds no copy of the weights.

    Args:
        model: The model; it is not modified.
        threads: Intra-op threads.
        provider: The execution provider.
        ends: Whether to end a run that exceeds the CPU time for the size of its model.
        packed: Whether to copy weights for the kernels after all. ``MatMulNBits`` computes in float32 without this,
            whatever its accuracy level.

    Raises:
        RuntimeUnavailableError: If the provider lacks a kernel for an operator of the model in its dtype.
        UsageError: If onnxruntime refuses the model.
    """
    if weight_bytes(model) > freed.MUCH:
        freed.now()
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        path, weights = ModelFiles(Path(scratch)).write_without_weights(model.clone())
        settings = NO_OPTIMIZER if packed else UNPACKED
        return OrtRunner(make_session(path, settings, threads, weights=weights, provider=provider), ends=ends)
