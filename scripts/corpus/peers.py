"""What other optimisers make of the same graphs."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime

from corpus.entry import Architecture


def with_ort_session(entry: Architecture, source: Path, destination: Path) -> None:
    """Save what ONNX Runtime's session optimiser makes of a graph, all levels on."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # The layout that level adds is for one processor; no site depends on it.
    options.add_session_config_entry("optimization.disable_specified_optimizers", "NchwcTransformer")
    options.optimized_model_filepath = str(destination)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def optimize_for_ort(source: Path, destination: Path) -> None:
    """Save what onnxscript's fusions for ONNX Runtime make of a graph."""
    from onnxscript.rewriter import ort_fusions

    result: Any = ort_fusions.optimize_for_ort(ir.load(source))
    model = result[0] if isinstance(result, tuple) else result
    ir.save(model, destination)


def optimize_with_transformers(source: Path, destination: Path, model_type: str, heads: int) -> None:
    """Save what onnxruntime.transformers' optimiser makes of a graph, at level 2.

    Args:
        source: The graph.
        destination: Where the result goes.
        model_type: Name of its optimiser for the architecture.
        heads: Attention heads.
    """
    from onnxruntime.transformers import optimizer

    optimised: Any = optimizer.optimize_model(
        str(source), model_type=model_type, num_heads=heads, hidden_size=0, opt_level=2, use_gpu=False
    )
    onnx.save(optimised.model, destination)


def _with_onnxscript(entry: Architecture, source: Path, destination: Path) -> None:
    optimize_for_ort(source, destination)


def _with_ort_transformers(entry: Architecture, source: Path, destination: Path) -> None:
    optimize_with_transformers(source, destination, entry.peer_type, entry.heads)


PEERS: Mapping[str, Callable[[Architecture, Path, Path], None]] = {
    "ORT session": with_ort_session,
    "onnxscript": _with_onnxscript,
    "ORT transformers": _with_ort_transformers,
}


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep what the optimisers and exporters print and log to themselves."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stderr(nowhere):
            try:
                yield
            finally:
                logging.disable(level)
