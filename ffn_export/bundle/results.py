"""The results that lie beside a bundle's model: what became of each site, the verification, the timing."""

from __future__ import annotations

from pathlib import Path

from ffn_export.fusion.report import FusionReport
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.result import ParityResult
from ffn_export.reports.json_report import write_json


def write(directory: Path, fusion: FusionReport, parity: ParityResult, latency: LatencyResult) -> None:
    """Write ``fusion.json``, ``parity.json`` and ``latency.json``."""
    for title, result in (("fusion", fusion), ("parity", parity), ("latency", latency)):
        write_json(result.to_dict(), directory / f"{title}.json")
