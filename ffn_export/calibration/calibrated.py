"""Quantise a model by the user's samples."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.calibration.ranges import ranges
from ffn_export.calibration.statistics import statistics
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.quantization.int8 import Known
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import groups_of, quantize_some
from ffn_export.quantization.result import QuantizationReport


def known(model: ir.Model, options: QuantizationOptions, samples: Mapping[str, Array] | None, threads: int) -> Known:
    """Return the statistics that a quantisation needs; none without samples, or without 8-bit activations.

    Raises:
        UsageError: If fixed scales are asked for without samples.
    """
    if samples is None and options.static is not None:
        raise UsageError("static scales are calibrated on real inputs: give samples")
    if samples is None or not options.int8:
        return Known()
    names = {name for name, _ in groups_of(model, options)}
    given, found = samples, statistics(model, names, samples, threads)
    return Known(found, lambda asked: ranges(model, options.calibration, asked, given, threads))


def quantize_by_samples(
    model: ir.Model, options: QuantizationOptions, samples: Mapping[str, Array] | None, threads: int = 1
) -> tuple[ir.Model, QuantizationReport]:
    """Quantise a model; with samples, 8-bit activations are smoothed.

    Raises:
        UsageError: If no product can be quantised; the message has the reasons.
    """
    return quantize_some(model, options, known(model, options, samples, threads))
