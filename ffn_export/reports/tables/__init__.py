"""Results as tables for a console: one function a result, each returning something that rich prints."""

from __future__ import annotations

from ffn_export.reports.tables.export import export_table
from ffn_export.reports.tables.fusion import fusion_table
from ffn_export.reports.tables.latency import latency_table
from ffn_export.reports.tables.listing import findings_table, presets_table
from ffn_export.reports.tables.parity import parity_table

__all__ = ["export_table", "findings_table", "fusion_table", "latency_table", "parity_table", "presets_table"]
