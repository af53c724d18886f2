"""What was exported."""

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
    """Return one row a property.

    Args:
        name: The model's name.
        source: The preset or spec it was made from.
        inputs: Each input as a spec writes it: ``x:float32[batch,seq,512]``.
        outputs: Each output, likewise.
        opset: Version of the default operator set.
        weights_bytes: Size of all initialisers.
        nodes: Number of nodes.
        target: What the graph was fused for.
        path: Where it was written.
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
