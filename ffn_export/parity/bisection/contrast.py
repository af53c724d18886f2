"""List the differences of a part's nodes from those of the reference, one line for each."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.inspection.facts import operator_name
from ffn_export.parity.bisection import weights
from ffn_export.parity.bisection.graph import Region
from ffn_export.parity.bisection.naming import surplus
from ffn_export.parity.bisection.pairs import Pairs
from ffn_export.parity.bisection.wiring import COMMUTATIVE

_SHOWN = 60


def contrast(region: Region, instead_of: Region, pairs: Pairs) -> tuple[str, ...]:
    """Return the differences that may explain the error of a part; empty if both consist of the same nodes."""
    here, there = region.nodes, instead_of.nodes
    if len(here) == len(there) == 1:
        return tuple(_of_nodes(here[0], there[0], region, instead_of, pairs))
    lines = [*_of_operators(region, instead_of), *(found.words for found in weights.changed(region, instead_of))]
    if not surplus(here, there) and not surplus(there, here):
        for one, other in zip(here, there, strict=True):
            lines += _of_attributes(one, other)
    return tuple(lines)


def _of_nodes(one: ir.Node, other: ir.Node, region: Region, instead_of: Region, pairs: Pairs) -> Iterator[str]:
    if operator_name(one) != operator_name(other):
        yield f"it is {operator_name(one)}, the reference has {operator_name(other)}"
    else:
        yield from _of_attributes(one, other)
    yield from (found.words for found in weights.changed(region, instead_of))
    read = [pairs.counterpart(str(value.name)) for value in region.given]
    wanted = [str(value.name) for value in instead_of.given]
    if read != wanted and (one.op_type not in COMMUTATIVE or sorted(map(str, read)) != sorted(wanted)):
        names = ", ".join(str(value.name) for value in region.given) or "nothing"
        yield f"it reads {names}, the reference reads {', '.join(wanted) or 'nothing'}"


def _of_operators(region: Region, instead_of: Region) -> Iterator[str]:
    more, less = surplus(region.nodes, instead_of.nodes), surplus(instead_of.nodes, region.nodes)
    if more and less:
        return  # another form, such as a fused one, where operators do not show what is missing
    for node in more:
        yield f"the reference has no {operator_name(node)} {node.name!r} here"
    for node in less:
        yield f"{operator_name(node)} {node.name!r} of the reference is missing"


def _of_attributes(one: ir.Node, other: ir.Node) -> Iterator[str]:
    for name in sorted({*one.attributes, *other.attributes}):
        mine, theirs = (_shown(node.attributes.get(name)) for node in (one, other))
        if mine != theirs:
            yield f"attribute {name} of {one.name!r} is {mine}, the reference has {theirs}"


def _shown(attribute: ir.Attr | None) -> str:
    if attribute is None:
        return "absent"
    value = attribute.value
    if isinstance(value, float):
        return f"{value:.7g}"  # the digits of float32, which attributes are stored in
    words = str(value.numpy().tolist()) if isinstance(value, ir.TensorProtocol) else str(value)
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
