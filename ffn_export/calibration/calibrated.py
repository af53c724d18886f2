"""Quantise a model by the user's samples."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.calibration.statistics import statistics
from ffn_export.core.types import Array
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import groups_of, quantize_some
from ffn_export.quantization.result import QuantizationReport
from ffn_export.quantization.smoothing import Channels


def channels(
    model: ir.Model, options: QuantizationOptions, samples: Mapping[str, Array] | None, threads: int
) -> dict[str, Channels]:
    """Return the statistics that a quantisation needs; none without samples, or without 8-bit activations."""
    names = {name for name, _ in groups_of(model, options)} if options.int8 and samples is not None else set()
    return statistics(model, names, samples, threads) if names and samples is not None else {}


def quantize_by_samples(
    model: ir.Model, options: QuantizationOptions, samples: Mapping[str, Array] | None, threads: int = 1
) -> tuple[ir.Model, QuantizationReport]:
    """Quantise a model; with samples, 8-bit activations are smoothed.

    Raises:
        UsageError: If no product can be quantised; the message has the reasons.
    """
    return quantize_some(model, options, channels(model, options, samples, threads))
