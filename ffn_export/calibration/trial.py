"""Run a model on the samples, with its weights read where they are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir

from ffn_export.runtimes.model_files import ModelFiles
from ffn_export.runtimes.ort_session import CPU, OrtRunner, Provider, make_session
from ffn_export.runtimes.session_options import UNPACKED


@contextmanager
def trial(model: ir.Model, threads: int, provider: Provider = CPU) -> Iterator[OrtRunner]:
    """Load a model in ONNX Runtime, whose session holds no copy of the weights.

    Args:
        model: The model; it is not modified.
        threads: Intra-op threads.
        provider: The execution provider.
    """
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        path, weights = ModelFiles(Path(scratch)).write_without_weights(model.clone())
        yield OrtRunner(make_session(path, UNPACKED, threads, weights=weights, provider=provider))
