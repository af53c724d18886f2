"""Results as console tables: one function for each kind of result, which returns a rich renderable."""

from __future__ import annotations

from ffn_export.reports.tables.difference import difference_table
from ffn_export.reports.tables.fusion import fusion_table, quantization_table
from ffn_export.reports.tables.latency import latency_table, tuning_table
from ffn_export.reports.tables.models import findings_table, inspection_table, presets_table
from ffn_export.reports.tables.parity import bisection_table, parity_summary_table, parity_table, summary_lines

__all__ = [
    "bisection_table",
    "difference_table",
    "findings_table",
    "fusion_table",
    "inspection_table",
    "latency_table",
    "parity_summary_table",
    "parity_table",
    "presets_table",
    "quantization_table",
    "summary_lines",
    "tuning_table",
]
