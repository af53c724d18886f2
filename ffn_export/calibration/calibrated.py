"""Quantise a model by the user's samples and by drawn inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from ffn_export.calibration.ranges import ranges
from ffn_export.calibration.statistics import statistics
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.quantization.int8 import Known
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import groups_of, quantize_some
from ffn_export.quantization.result import QuantizationReport
from ffn_export.quantization.smoothing import FEWEST, Channels
from ffn_export.quantization.whole_rows import takes_floats


def known(
    model: ir.Model,
    options: QuantizationOptions,
    samples: Mapping[str, Array] | None,
    threads: int,
    drawn: Mapping[str, Array] | None = None,
) -> Known:
    """Return the statistics that a quantisation needs; none without inputs, or without 8-bit activations.

    Args:
        model: The model; it is not modified.
        options: Quantisation options.
        samples: Real inputs; None without any.
        threads: Intra-op threads.
        drawn: Drawn inputs, which are measured where there are no samples, and beside samples that are integers: large
            channels follow from weights and norms, and a few samples show only some of them.

    Raises:
        UsageError: If fixed scales are asked for without samples.
    """
    if samples is None and options.static is not None:
        raise UsageError("static scales are calibrated on real inputs: give samples")
    if not options.int8:
        return Known()
    names = groups_of(model, options).keys()
    if samples is None:
        return Known() if drawn is None else Known(_on_drawn(model, names, drawn, threads))
    given, found = samples, statistics(model, names, samples, threads)
    # Drawn integers are rows of embeddings, as samples are. Drawn floats may be of another size than samples.
    if drawn is not None and options.static is None and not takes_floats(model):
        beside = _on_drawn(model, names, drawn, threads)
        found = {name: each.joined(beside[name]) if name in beside else each for name, each in found.items()}
    return Known(found, lambda asked: ranges(model, options.calibration, asked, given, threads))


def _on_drawn(model: ir.Model, names: Collection[str], drawn: Mapping[str, Array], threads: int) -> dict[str, Channels]:
    try:
        found = statistics(model, names, drawn, threads)
    except Exception as error:  # noqa: BLE001 - a model may refuse drawn inputs, and is then not smoothed
        expose_own(error)
        return {}
    return {name: channels for name, channels in found.items() if len(channels.rows) >= FEWEST}


def quantize_by_samples(
    model: ir.Model,
    options: QuantizationOptions,
    samples: Mapping[str, Array] | None,
    threads: int = 1,
    drawn: Mapping[str, Array] | None = None,
) -> tuple[ir.Model, QuantizationReport]:
    """Quantise a model; 8-bit activations are smoothed by samples and drawn inputs, as :func:`known` has it.

    Raises:
        UsageError: If no product can be quantised; the message has the reasons.
    """
    return quantize_some(model, options, known(model, options, samples, threads, drawn))
