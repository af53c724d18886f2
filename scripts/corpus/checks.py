"""Whether a graph is right: it loads, gives PyTorch's numbers at other sizes, and kept its axes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from corpus.entry import CHECKED, Architecture, Array
from ffn_export.core.fills import scales
from ffn_export.core.one_line import first_line
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings

# Largest error over the largest magnitude of PyTorch's own output.
ALLOWED = {torch.float32: 1e-4, torch.float16: 2e-2}


@dataclass(frozen=True)
class Case:
    """Inputs at sizes other than the example's, and what PyTorch makes of them."""

    feeds: dict[str, Array]
    wanted: Array


def cases(entry: Architecture, module: torch.nn.Module) -> list[Case]:
    """Run PyTorch at the sizes that are checked."""
    made = []
    for sizes in CHECKED if entry.axes else CHECKED[:1]:
        feeds = entry.feeds(sizes)
        with torch.no_grad():
            result = module(*(torch.from_numpy(array) for array in feeds.values()))
        made.append(Case(feeds, result.numpy()))
    return made


def worst_error(path: Path, given: list[Case], settings: SessionSettings = NO_OPTIMIZER) -> float:
    """Return the largest error over the scale of the output; not finite where a value is not.

    Raises:
        Exception: Whatever onnxruntime says when it cannot load or run the graph.
    """
    options = settings.session_options(1)
    options.log_severity_level = 4  # what it says on an error is in the error
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return max(_error(session, case) for case in given)


def _error(session: onnxruntime.InferenceSession, case: Case) -> float:
    result = session.run(None, case.feeds)[0]
    if result.shape != case.wanted.shape:
        return float("inf")
    got, wanted = result.astype(np.float64), case.wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    apart = [(float(np.abs(got[at] - wanted[at]).max(initial=0.0)), scale) for at, scale in scales(wanted)]
    error = float(np.max([largest / max(scale, 1e-6) for largest, scale in apart]))
    return error if np.isfinite(error) else float("inf")


def is_valid(path: Path) -> bool:
    """Say whether the ONNX checker takes the graph, types and shapes included."""
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception:  # noqa: BLE001 - the checker raises several kinds
        return False
    return True


def axes(path: Path) -> dict[str, tuple[int | str, ...]]:
    """Return the shapes of a graph's inputs and outputs, as written."""
    graph = onnx.load(path, load_external_data=False).graph
    return {
        value.name: tuple(
            d.dim_param or (d.dim_value if d.HasField("dim_value") else "?") for d in value.type.tensor_type.shape.dim
        )
        for value in (*graph.input, *graph.output)
    }


def verdict(path: Path, given: list[Case], allowed: float) -> tuple[str, float | None]:
    """Return ``right``, ``wrong`` or why it cannot be run, and the error."""
    try:
        error = worst_error(path, given)
    except Exception as raised:  # noqa: BLE001 - a graph that cannot be loaded or run is a result
        return f"cannot be run: {first_line(raised)}", None
    return ("right" if error <= allowed else "wrong"), error
