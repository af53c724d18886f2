"""Where a model first differs from its reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ffn_export.parity.bisection.result import Bisection, Error, Given, NodeFacts, Part, Verdict
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

_STYLES: dict[Verdict, str] = {
    "node": BAD, "session": BAD, "initializer": BAD, "accumulated": UNSURE, "outside": UNSURE, "nothing": GOOD,
}  # fmt: skip
_MOST_FURTHER = 5
_MOST_NODES = 8


def bisection_table(bisection: Bisection) -> RenderableType:
    """Return the verdict in one line, the part that is named for it, and what else is over its budget."""
    lines: list[RenderableType] = [
        Text.assemble("bisection: ", Text(bisection.reason, _STYLES[bisection.verdict])),
    ]
    if bisection.part is not None:
        lines.append(_part(bisection.part))
    if bisection.further:
        lines += [Text(), _further(bisection.further)]
    if bisection.reduced_nodes is not None:
        lines.append(Text(f"the smallest part that fails has {bisection.reduced_nodes} nodes"))
    return Group(*lines, Text(_how(bisection), QUIET))


def _part(part: Part) -> Table:
    """Return one row for each fact about the named node and what it computes."""
    table = new_table("guilty", "")
    rows = [
        ("node", part.node.name),
        ("operator", part.node.op_type),
        ("PyTorch module", part.node.scope or "the root module, or not recorded"),
        ("computes", _value(part.value, part.counterpart)),
        ("own error", _words(part.own)),
        ("in the whole run", _words(part.whole)),
        *_given(part.given),
        *(("differs", line) for line in part.contrast),
    ]
    if len(part.nodes) > 1:
        rows.append(("its part", _listed(part.nodes)))
    if len(part.nodes) > 1 or len(part.instead_of) > 1:
        rows.append(("in the reference", _listed(part.instead_of)))
    for what, words in rows:
        add_row(table, what, words)
    return table


def _given(given: Sequence[Given]) -> Iterator[tuple[str, str]]:
    for each in given:
        inherited = "an input" if each.inherited is None else f"inherited error {_words(each.inherited)}"
        yield "reads", f"{_value(each.value, each.counterpart)}: {inherited}"


def _further(parts: Sequence[Part]) -> Table:
    table = new_table("also wrong alone", "operator", "PyTorch module", "own error")
    for part in parts[:_MOST_FURTHER]:
        add_row(table, part.node.name, part.node.op_type, part.node.scope, _words(part.own))
    if len(parts) > _MOST_FURTHER:
        add_row(table, f"and {len(parts) - _MOST_FURTHER} more", "", "", "")
    return table


def _how(bisection: Bisection) -> str:
    unpaired = f", {bisection.unpaired} without a counterpart" if bisection.unpaired else ""
    return (
        f"{bisection.compared} values of {bisection.model} paired with those of {bisection.against} by "
        f"{bisection.alignment}{unpaired}; each computed alone by {bisection.runtime} on {bisection.case}"
    )


def _value(value: str, counterpart: str) -> str:
    return value if value == counterpart else f"{value} ({counterpart} in the reference)"


def _words(error: Error | None) -> str:
    return "it does not run" if error is None else error.words


def _listed(nodes: Sequence[NodeFacts]) -> str:
    names = ", ".join(f"{node.op_type} {node.name}" for node in nodes[:_MOST_NODES])
    return f"{names} and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else names or "nothing"
