"""Console table of an export."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from ffn_export.reports.tables.layout import add_row, new_table


def export_table(
    name: str,
    *,
    source: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    opset: int,
    weights_bytes: int,
    nodes: int | None = None,
    target: str | None = None,
    path: str | None = None,
) -> Table:
    """Return one row for each property.

    Args:
        name: Name of the model.
        source: SPEC of the model.
        inputs: Inputs as specs: ``x:float32[batch,seq,512]``.
        outputs: Outputs as specs.
        opset: Version of the default operator set.
        weights_bytes: Size of all initializers.
        nodes: Number of nodes.
        target: Target of the fused graph.
        path: Path of the written file.
    """
    table = new_table("property", "value")
    add_row(table, "name", name)
    add_row(table, "source", source)
    for spec in inputs:
        add_row(table, "input", spec)
    for spec in outputs:
        add_row(table, "output", spec)
    add_row(table, "opset", str(opset))
    if nodes is not None:
        add_row(table, "nodes", str(nodes))
    add_row(table, "weights", f"{weights_bytes / 1e6:,.2f} MB ({weights_bytes:,} bytes)")
    if target is not None:
        add_row(table, "target", target)
    if path is not None:
        add_row(table, "file", path)
    return table
