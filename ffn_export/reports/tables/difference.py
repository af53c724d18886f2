"""Console tables of the difference of two models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.core.words import size_label
from ffn_export.inspection.difference import STATUSES, Difference, Side, WeightPair
from ffn_export.reports.changed_nodes import MOST_ENTRIES, counts, entries
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, Table
from ffn_export.reports.tables.models import opset_words, signature

_STYLES = {"equal": GOOD, "changed": BAD, "only in A": UNSURE, "only in B": UNSURE, "not compared": QUIET}


def difference_table(difference: Difference) -> RenderableType:
    """Return properties, operators and weights of both models, and the measurements if both are bundles."""
    a, b = difference.a, difference.b
    return Group(
        Text("the models differ" if difference.differs else "the models are the same"),
        _properties(difference),
        *(Text(f"{name}: {side.note}", UNSURE) for name, side in (("A", a), ("B", b)) if side.note),
        Text(),
        _operators(a, b),
        Text(),
        *_nodes(difference),
        *_weights(difference),
        *_measured(a, b),
    )


def _properties(difference: Difference) -> Table:
    table = Table("property", "A", "B", "")
    a, b = difference.a, difference.b
    rows = [
        ("model", a.model, b.model),
        ("inputs", *(" ".join(map(signature, side.inputs)) for side in (a, b))),
        ("outputs", *(" ".join(map(signature, side.outputs)) for side in (a, b))),
        ("opset", opset_words(a.opset_imports), opset_words(b.opset_imports)),
        ("nodes", *(str(sum(side.operators.values())) for side in (a, b))),
        ("file (bytes)", f"{a.file_bytes:,}", f"{b.file_bytes:,}"),
        ("weights (bytes)", f"{a.weights_bytes:,}", f"{b.weights_bytes:,}"),
    ]
    for what, left, right in rows:
        table.add(what, left, right, _same(left == right) if what != "model" else "")
    table.add("wiring", "", "", _same(difference.same_wiring))
    return table


def _same(same: bool) -> Text:
    return Text("same", GOOD) if same else Text("differs", BAD)


def _operators(a: Side, b: Side) -> Table:
    table = Table("operator", "A", "B", "difference", numbers=("A", "B", "difference"))
    for operator in dict.fromkeys((*a.operators, *b.operators)):
        left, right = a.operators.get(operator, 0), b.operators.get(operator, 0)
        table.add(operator, str(left), str(right), f"{right - left:+d}" if right != left else "")
    return table


def _nodes(difference: Difference) -> Iterator[RenderableType]:
    """Yield how many nodes differ, and a row for the nodes that changed alike."""
    if not difference.nodes:
        return
    found = entries(difference.nodes)
    yield Text(f"nodes: {', '.join(counts(difference.nodes))}")
    table = Table("node", "operator", "status", "what changed")
    for entry in found[:MOST_ENTRIES]:
        table.add(entry.names, entry.operator, Text(entry.status, _STYLES[entry.status]), entry.words)
    yield table
    if len(found) > MOST_ENTRIES:
        yield Text(f"and {len(found) - MOST_ENTRIES} more kinds of change, which --json has", QUIET)
    yield Text()


def _weights(difference: Difference) -> Iterator[RenderableType]:
    """Yield one line for all weights, and a row for each that is changed, renamed, transposed or unpaired."""
    counts = ", ".join(f"{n} {status}" for status in STATUSES if (n := difference.count(status)))
    yield Text(f"weights: {counts or 'none'}")
    told = [pair for pair in difference.weights if pair.status != "equal" or pair.renamed or pair.transposed]
    if not told:
        return
    largest = "largest change\n(relative)"
    table = Table("weight in A", "in B", "status", largest, "type in A", "in B", numbers=(largest,))
    for pair in sorted(told, key=lambda pair: pair.status == "equal"):
        relative = "" if pair.max_relative is None else f"{pair.max_relative:.3g}"
        types = pair.type_a or "", pair.type_b or ""
        table.add(pair.a or "", pair.b or "", Text(_status(pair), _STYLES[pair.status]), relative, *types)
    yield table


def _status(pair: WeightPair) -> str:
    how = [word for word, holds in (("renamed", pair.renamed), ("transposed", pair.transposed)) if holds]
    return ", ".join((pair.status, *how))


def _measured(a: Side, b: Side) -> Iterator[RenderableType]:
    """Yield the measurements in the manifests of two bundles, which may come from different machines."""
    if a.parity is None or b.parity is None:
        return
    table = Table("measured", "A", "B", numbers=("A", "B"))
    for found_a, found_b, rows in ((a.parity, b.parity, _errors), (a.latency or {}, b.latency or {}, _times)):
        left, right = rows(found_a), rows(found_b)
        for what in dict.fromkeys((*left, *right)):
            table.add(what, left.get(what, ""), right.get(what, ""))
    yield Text()
    yield table


def _errors(parity: Mapping[str, Any]) -> dict[str, str]:
    rows = {"parity": "passed" if parity["passed"] else "FAILED"}
    for runtime, found in parity["runtimes"].items():
        worst = found["worst_ulps"]
        rows[f"worst error, {runtime} (ulp)"] = "" if worst is None else f"{float(worst):,.2f}"
    return rows


def _times(latency: Mapping[str, Any]) -> dict[str, str]:
    rows = {}
    for measurement in latency.get("measurements", ()):
        sizes = size_label(measurement["sizes"])
        for runtime, median in measurement["median_ms"].items():
            ratio = measurement["ratio"].get(runtime)
            told = ratio and (f"{ratio['value']:.3f} x {latency['baseline']}" if "value" in ratio else ratio["verdict"])
            times = f" ({told})" if told else ""
            rows[f"median, {runtime} at {sizes} (ms)"] = f"{median:,.3f}{times}"
    return rows
