"""How a part of the suspect differs from the reference's, as the two are written: a line for each difference."""

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
    """Return the differences that may explain that the part is wrong; none where it is written alike."""
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
        return  # another form, as a fused one is: what is missing is not told by its operators
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
        return f"{value:.7g}"  # as many digits as float32, in which attributes are stored, has
    words = str(value.numpy().tolist()) if isinstance(value, ir.TensorProtocol) else str(value)
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
