"""Console table of a quantization, matrix by matrix."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.quantization.result import QuantizationReport
from ffn_export.reports.tables.layout import UNSURE, add_row, new_table


def quantization_table(report: QuantizationReport) -> RenderableType:
    """Return a summary line, a row for each matrix, a line for each product that was kept, and the warnings."""
    mib = [size / 2**20 for size in (report.bytes_before, report.bytes_after)]
    lines: list[RenderableType] = [
        Text(
            f"{report.bits} bits in blocks of {report.block}, accuracy level {report.accuracy_level}: "
            f"{len(report.weights)} matrices, {mib[0]:,.1f} MiB -> {mib[1]:,.1f} MiB"
        )
    ]
    numbers = ("d_in", "d_out", "rounding (relative L2)")
    table = new_table("matrix", *numbers, "products", numbers=numbers)
    for weight in report.weights:
        d_in, d_out = map(str, weight.shape)
        add_row(table, weight.name, d_in, d_out, f"{weight.relative_l2:.2e}", ", ".join(weight.nodes))
    lines.append(table)
    lines += [Text(f"kept {node}: {reason}", UNSURE) for node, reason in (report.kept or {}).items()]
    lines += [Text(f"warning: {warning}", UNSURE) for warning in report.warnings]
    return Group(*lines)
