"""What every report says of times with copies, which only a device with memory of its own has."""

from __future__ import annotations

from ffn_export.latency.result import LatencyResult


def copies_words(result: LatencyResult) -> str | None:
    """Return what a row with copies is, in one line, or None where there is none."""
    if not any(timing.copies for measurement in result.measurements for timing in measurement.timings):
        return None
    return "with copies: inputs and outputs are in host memory before and after each run; without: on the device"
