"""A bisection in words, for every report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ffn_export.parity.bisection.result import Bisection, Error, Given, NodeFacts, Part

FURTHER = ("also wrong alone", "operator", "PyTorch module", "own error")
"""Titles of the columns of :func:`further_rows`."""

_MOST_FURTHER = 5
_MOST_NODES = 8


def part_rows(part: Part) -> list[tuple[str, str]]:
    """Return one row for each fact about the named node and its value."""
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
    return rows


def further_rows(parts: Sequence[Part]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, operator, PyTorch module and own error of the first other parts over their budget."""
    for part in parts[:_MOST_FURTHER]:
        yield part.node.name, part.node.op_type, part.node.scope, _words(part.own)
    if len(parts) > _MOST_FURTHER:
        yield f"and {len(parts) - _MOST_FURTHER} more", "", "", ""


def how(bisection: Bisection) -> str:
    """Describe the comparison: how many values, of which models, paired how, on which inputs."""
    unpaired = f", {bisection.unpaired} without a counterpart" if bisection.unpaired else ""
    return (
        f"{bisection.compared} values of {bisection.model} paired with those of {bisection.against} by "
        f"{bisection.alignment}{unpaired}; each computed alone by {bisection.runtime} on {bisection.case}"
    )


def _given(given: Sequence[Given]) -> Iterator[tuple[str, str]]:
    for each in given:
        inherited = "an input" if each.inherited is None else f"inherited error {_words(each.inherited)}"
        yield "reads", f"{_value(each.value, each.counterpart)}: {inherited}"


def _value(value: str, counterpart: str) -> str:
    return value if value == counterpart else f"{value} ({counterpart} in the reference)"


def _words(error: Error | None) -> str:
    return "it does not run" if error is None else error.words


def _listed(nodes: Sequence[NodeFacts]) -> str:
    names = ", ".join(f"{node.op_type} {node.name}" for node in nodes[:_MOST_NODES])
    return f"{names} and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else names or "nothing"
