"""Ranges of activations on samples: by their extremes, or by onnxruntime's histograms."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.calibration.statistics import watched
from ffn_export.core.types import Array

# Bins of a histogram, and the bins that entropy merges them to. onnxruntime's default for entropy, 128 and 128, leaves
# no choice: it always takes the extremes.
_BINS = {"percentile": 2048, "entropy": 512}
_QUANTIZED_BINS = 128
_PERCENTILE = 99.999


def ranges(
    model: ir.Model, method: str, asked: Mapping[str, Array | None], samples: Mapping[str, Array], threads: int = 1
) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest number of values that are worth storing.

    The method is ``minmax``, ``percentile`` or ``entropy``. ``asked`` has for the name of each value the factors that
    its channels are divided by, or None.
    """
    collector = _collector(method) if method != "minmax" else None
    found: dict[str, tuple[float, float]] = {}
    with contextlib.redirect_stdout(io.StringIO()):  # the collector prints
        for name, rows, _ in watched(model, asked, samples, threads):
            factors = asked[name]
            smoothed = rows if factors is None else rows / factors
            if collector is not None:
                collector.collect({name: smoothed})
            low, high = found.get(name, (np.inf, -np.inf))
            found[name] = min(low, float(smoothed.min())), max(high, float(smoothed.max()))
        if collector is None or not found:
            return found
        return {
            name: (float(low), float(high)) for name, (low, high, *_) in collector.compute_collection_result().items()
        }


def _collector(method: str) -> Any:
    from onnxruntime.quantization.calibrate import HistogramCollector

    return HistogramCollector(method, False, _BINS[method], _QUANTIZED_BINS, _PERCENTILE, "same")
