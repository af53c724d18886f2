"""Write feed-forwards anew as functions of rows, ``[tokens, d_in]``, for the forms that do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion import sites
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.engine import Log, scoped_name
from ffn_export.fusion.forms.by_rows.row_function import OPSET, read
from ffn_export.fusion.forms.put import put
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.fusion.linear import on_rows
from ffn_export.fusion.shapes import last_size

# Function that writes a computation on rows.
Compute = Callable[[Builder, ir.Value], ir.Value]
Plan = Callable[[sites.FoundSite, Reading], Compute | str]

_SHARES = "it shares nodes with another"


def rewrite(
    model: ir.Model,
    log: Log,
    excluded: Collection[str],
    name: str,
    plan: Plan,
    is_meant: Callable[[sites.FoundSite], bool] = lambda site: True,
) -> dict[str, str]:
    """Write feed-forwards by rows, in place.

    Args:
        model: A fused model whose values have types.
        log: Record of the applied rules.
        excluded: Names of values whose computation must not change.
        name: Name of the form, for the nodes that are written.
        plan: Function that returns how to compute the rows of a feed-forward, or why it is left.
        is_meant: Function that tells which feed-forwards to write; nothing is said about the others.

    Returns:
        Name of a feed-forward that is left -> reason.
    """
    names = Names(model)
    places = {node: place for place, node in enumerate(model.graph.all_nodes())}
    left: dict[str, str] = {}
    taken: set[ir.Node] = set()
    # The result of one feed-forward may be the input of the next.
    written: dict[ir.Value, ir.Value] = {}
    for site in sites.find(model):
        if site.kind != "feed_forward" or site.parts > 1 or not is_meant(site):
            continue
        at = scoped_name(site.nodes[-1])
        # Checked before reading: replaced nodes are in no graph.
        if not taken.isdisjoint(site.nodes):
            left[at] = _SHARES
            continue
        try:
            reading = read(model, site, places)
            compute = reading if isinstance(reading, str) else plan(site, reading)
        except Exception as error:  # noqa: BLE001 - a site that cannot be read stays as it is
            expose(error)
            reading = compute = f"reading it raised {first_line(error)}"
        if isinstance(reading, str) or isinstance(compute, str):
            left[at] = str(compute)
            continue
        if not taken.isdisjoint(reading.nodes):
            left[at] = _SHARES
            continue
        if reading.end.name in excluded:
            continue
        taken.update(reading.nodes)
        x = reading.inputs["x"]
        op = Builder()
        result = _write(op, reading, written.get(x, x), compute)
        log.applied.update([name])
        log.values.append(str(reading.end.name))
        written[reading.end] = put(op, result, reading.nodes[-1], reading.replaced, reading.end, name, names)
    return left


def _write(op: Builder, reading: Reading, x: ir.Value, compute: Compute) -> ir.Value:
    d_in, d_out = last_size(reading.inputs["x"]), last_size(reading.end)
    assert d_in is not None
    assert d_out is not None
    y = on_rows(op, x, (d_in, d_out), partial(compute, op), OPSET)
    y.type, y.shape = reading.end.type, reading.end.shape
    return y
