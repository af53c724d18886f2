"""Plan the default cases of a model: the core sweep, sizes that the graph asks for, and sizes of every class.

Sizes beyond the core have a budget, a share of the core's work, which bounds the time to verify a large model. A small
model may use more. Sizes that exceed the budget are reported by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import Dim, TensorSpec, merge_dims
from ffn_export.core.words import size_label
from ffn_export.fusion.functions.inline import all_inlined
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.case import Case, sized, sweep
from ffn_export.parity.cases.features import for_every_feature, rounds
from ffn_export.parity.cases.sizes import classes
from ffn_export.parity.cases.sizes.aim import Aim
from ffn_export.parity.cases.sizes.expressions import parts
from ffn_export.parity.cases.sizes.flow import Flow, TooLargeError, Use
from ffn_export.parity.cases.sizes.report import Sizes, SizeUse
from ffn_export.parity.cases.sizes.work import Work
from ffn_export.parity.cases.values import HALFWAY

# Budget of the sizes of every class, together with those that the graph asks for: this share of the core's work, or
# this many products for a small model.
_SHARE, _SMALL = 0.75, 1_000_000_000
# Sizes that the graph asks for have a larger budget, since a fault may show at no other size.
_ASKED_SHARE, _ASKED_SMALL = 1.0, 20_000_000_000
_MOST_ASKED = 64
# Kinds of values at sizes that the graph asks for: a limit or a NaN may be wrong at those alone.
_KINDS_ASKED = ("large", "nan in parts", "infinite in parts")
_MOST_OF_KINDS = 6


@dataclass(frozen=True)
class Plan:
    """Planned cases, and the sizes that were left out.

    Attributes:
        cases: Cases, in the order in which they run.
        sizes: Uses of sizes in the graph, and sizes left out; None if the caller gave the cases.
        asked: Sizes that the graph asks for, at which other values than normal ones are tried, too.
    """

    cases: tuple[Case, ...]
    sizes: Sizes | None = None
    asked: tuple[Mapping[str, int], ...] = ()


def plan(model: ir.Model, specs: Sequence[TensorSpec], example: Mapping[str, int], seed: int) -> Plan:
    """Return the cases of a sweep over a model's inputs."""
    core = sweep(specs, example, seed)
    model = all_inlined(model)
    work = Work.of(model).of_sizes(specs)
    dims = list(merge_dims(specs).values())
    spent = sum(work(case.sizes) for case in core)
    seen = {size_label(case.sizes) for case in core}
    uses, unknown, wanted = asked(model, specs, work)
    asking = _Budget(work, max(_ASKED_SHARE * spent, _ASKED_SMALL), seen)
    taken = asking.take(wanted[:_MOST_ASKED])
    of_kinds = [sizes for sizes in taken if 0 not in sizes.values() and work(sizes) <= max(_SHARE * spent, _SMALL)]
    of_kinds = of_kinds[:_MOST_OF_KINDS]
    further = _Budget(work, max(_SHARE * spent - asking.spent, _SMALL), seen)
    taken += further.take(sorted(classes.alone(dims), key=work))
    taken += further.take(classes.in_pairs(dims, work))
    drawn = ("normal", masks.ALL_ONES) if masks.kinds(specs) else ("normal",)
    cases = [sized(sizes, drawn[index % len(drawn)], seed + len(core) + index) for index, sizes in enumerate(taken)]
    cases += [
        sized(sizes, values, seed)
        for sizes in for_every_feature(model, specs)
        if work(sizes) <= max(_SHARE * spent, _SMALL)
        for values in ("nan in parts", "infinite in parts")
    ]
    if any(spec.is_floating for spec in specs):
        cases += [sized(sizes, values, seed) for sizes in of_kinds for values in _KINDS_ASKED]
    if rounds(model):
        cases.append(sized(core[0].sizes, HALFWAY, seed))
    left_out = *asking.left_out, *(size_label(sizes) for sizes in wanted[_MOST_ASKED:]), *further.left_out
    number = len(asking.left_out) + len(wanted[_MOST_ASKED:])
    return Plan((*core, *cases), Sizes(uses, unknown, tuple(dict.fromkeys(left_out)), number), tuple(of_kinds))


def asked(
    model: ir.Model, specs: Sequence[TensorSpec], work: Callable[[Mapping[str, Any]], Any]
) -> tuple[tuple[SizeUse, ...], str | None, list[dict[str, int]]]:
    """Return the sizes that a graph asks for.

    Returns:
        Nodes where sizes become numbers or conditions, the reason if the graph is not followed or else None, and the
        sizes to verify at.
    """
    dims = list(merge_dims(specs).values())
    flow = Flow(model)
    try:
        flow.follow(specs)
    except TooLargeError as error:
        return (), f"the graph is not followed: {error}", []
    except Exception as error:  # noqa: BLE001 - an invalid graph; the runtimes report what is wrong with it
        expose_own(error)
        return (), f"the graph is not followed: {first_line(error)}", []
    if not dims or not flow.uses:
        return tuple(_reported(flow.uses)), None, []
    aim = _aim(dims, flow.uses)
    deciding = aim.deciding()
    uses = [use for use in flow.uses if not use.shapes_only or not deciding.isdisjoint(parts(use.expressions))]
    if len(uses) < len(flow.uses):
        aim = _aim(dims, uses)
    return tuple(_reported(uses)), None, aim.wanted(work) if uses else []


def _aim(dims: Sequence[Dim], uses: Sequence[Use]) -> Aim:
    numbers = [each for use in uses if not use.shapes_only for each in use.expressions]
    return Aim(dims, numbers, [each for use in uses if use.shapes_only for each in use.expressions])


def _reported(uses: Sequence[Use]) -> Iterator[SizeUse]:
    """Yield each node once, with the expressions that it uses."""
    for node in dict.fromkeys(use.node for use in uses):
        found = (str(each) for use in uses if use.node is node for each in use.expressions if each.number is None)
        yield SizeUse(
            str(node.name or node.outputs[0].name), node.op_type, ", ".join(dict.fromkeys(found)) or "positions"
        )


class _Budget:
    """Takes sizes until the work is spent."""

    def __init__(self, work: Callable[[Mapping[str, int]], int], most: float, seen: set[str]) -> None:
        self._work, self._most, self._seen = work, most, seen
        self.spent = 0
        self.left_out: list[str] = []

    def take(self, wanted: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
        """Return the sizes that are new and fit in the budget."""
        taken = []
        for sizes in wanted:
            label = size_label(sizes)
            if label in self._seen:
                continue
            work = self._work(sizes)
            if self.spent + work > self._most:
                self.left_out.append(label)
                continue
            self._seen.add(label)
            self.spent += work
            taken.append(sizes)
        return taken
