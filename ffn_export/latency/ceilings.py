"""Measure the limits of the machine: floating-point operations and bytes in a second.

Both limits come from ONNX Runtime's ``MatMul`` in float32:

1. Operations: a product so large that bandwidth does not matter. Its rows do not fall on the same cache sets.
2. Bytes: a row times a matrix of about the size of the model's weights. The matrix is read once, from the cache if it
   fits.

The rest of a model's time is overhead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx

from ffn_export.latency.interleaving import interleave
from ffn_export.latency.result import Ceilings
from ffn_export.runtimes.ort_session import make_session
from ffn_export.runtimes.session_options import SessionSettings

_SQUARE, _INNER = 1024, 1024 + 16  # one cache line more than a multiple of 4096 bytes
_COLUMNS = 4096
_LEAST_ROWS, _MOST_ROWS = 64, 8192  # 1 MiB to 128 MiB
_SESSIONS = 2
_BUDGET = 0.1  # seconds of runs for each measurement
# How often the limits are measured again while a model is faster than they are.
_AGAIN = 3


def ceilings(threads: int, weights: int, reached: float = 0.0) -> Ceilings:
    """Measure both limits, from the fastest run of this process: a limit holds for an undisturbed machine.

    They are measured again while a model has ``reached`` more operations in a second than the limit. The threads of a
    session may share a processor for as long as it is timed. A new session has new threads. ``weights`` are in bytes.
    """
    found = _measured(threads, weights)
    for _ in range(_AGAIN):
        if reached <= found.operations:
            break
        found = _measured(threads, weights)
    return found


def _measured(threads: int, weights: int) -> Ceilings:
    square = _seconds(_SQUARE, _INNER, _SQUARE, threads, is_weight=True)
    rows = min(max(2 ** round(math.log2(max(weights, 1) / (4 * _COLUMNS))), _LEAST_ROWS), _MOST_ROWS)
    row = _seconds(1, rows, _COLUMNS, threads, is_weight=False)
    return Ceilings(2 * _SQUARE * _INNER * _SQUARE / square, 4 * rows * _COLUMNS / row)


_shortest: dict[tuple[int, int, int, int, bool], float] = {}


def _seconds(m: int, k: int, n: int, threads: int, *, is_weight: bool) -> float:
    """Return the shortest time of a product of ``[m, k]`` and ``[k, n]``.

    With ``is_weight``, the second matrix is an initializer, which is packed ahead.
    """
    key = (m, k, n, threads, is_weight)
    runs = interleave({"product": _calls(*key)}, _BUDGET)["product"]
    _shortest[key] = min(_shortest.get(key, math.inf), *runs.seconds)
    return _shortest[key]


def _calls(m: int, k: int, n: int, threads: int, is_weight: bool) -> tuple[Callable[[], Any], ...]:
    feeds = {"x": np.full((m, k), 0.5, np.float32), "w": np.full((k, n), 0.5, np.float32)}
    inputs = f"float[{m},{k}] x, float[{k},{n}] w"
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => (float[{m},{n}] y) {{ y = MatMul(x, w) }}'
    )
    if is_weight:
        model.graph.initializer.append(onnx.numpy_helper.from_array(feeds.pop("w"), "w"))
        del model.graph.input[1]
    sessions = [make_session(model.SerializeToString(), SessionSettings(), threads) for _ in range(_SESSIONS)]
    return tuple(partial(session.run, None, feeds) for session in sessions)
