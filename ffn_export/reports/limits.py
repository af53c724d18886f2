"""What every report says of the machine's limits."""

from __future__ import annotations

from ffn_export.latency.result import Ceilings, LatencyResult, Measurement, Timing


def limit_cells(result: LatencyResult, measurement: Measurement, timing: Timing) -> tuple[str, str]:
    """Return GFLOP/s of the matrix products, and the share of the time that the machine cannot do without."""
    speed = "" if measurement.work is None else f"{measurement.work.operations / timing.median / 1e9:,.1f}"
    limit = result.limit(measurement)
    return speed, "" if limit is None or timing.accelerated else f"{limit / timing.median:.2f}"


def limit_words(ceilings: Ceilings) -> str:
    """Return the limits in one line."""
    return (
        f"limit: products at {ceilings.operations / 1e9:,.1f} GFLOP/s, or weights, inputs and outputs moved once at "
        f"{ceilings.bytes / 1e9:,.1f} GB/s, whichever takes longer, as measured here in float32"
    )
