"""Results as console tables: one function for each kind of result, which returns a rich renderable."""

from __future__ import annotations

from ffn_export.reports.tables.bisection import bisection_table
from ffn_export.reports.tables.difference import difference_table
from ffn_export.reports.tables.export import export_table
from ffn_export.reports.tables.fusion import fusion_table
from ffn_export.reports.tables.inspection import inspection_table
from ffn_export.reports.tables.latency import latency_table
from ffn_export.reports.tables.listing import findings_table, presets_table
from ffn_export.reports.tables.parity import parity_table
from ffn_export.reports.tables.quantization import quantization_table
from ffn_export.reports.tables.summary import parity_summary_table
from ffn_export.reports.tables.tuning import tuning_table

__all__ = [
    "bisection_table",
    "difference_table",
    "export_table",
    "findings_table",
    "fusion_table",
    "inspection_table",
    "latency_table",
    "parity_summary_table",
    "parity_table",
    "presets_table",
    "quantization_table",
    "tuning_table",
]
