"""The cases that a model is judged on by default: the core, what its graph asks for, and sizes of every class.

What comes beside the core has a budget, as a share of the work that the core is, so that a whole model takes no longer
to verify than its core allows. A small model may do more. What has no place in it is told by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.size_label import size_label
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import Dim, TensorSpec, merge_dims
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.case import Case, sized, sweep
from ffn_export.parity.cases.sizes import classes
from ffn_export.parity.cases.sizes.aim import Aim
from ffn_export.parity.cases.sizes.expressions import parts
from ffn_export.parity.cases.sizes.flow import Flow, TooLargeError, Use
from ffn_export.parity.cases.sizes.report import Sizes, SizeUse
from ffn_export.parity.cases.sizes.work import Work

# Work beside the core: at most these shares of the core's, and as much as this for a model that is small.
_SHARE, _SMALL = 0.75, 1_000_000_000
# What the graph itself asks for may take more: a fault may be nowhere else.
_ASKED_SHARE, _ASKED_SMALL = 1.0, 20_000_000_000
_MOST_ASKED = 64


@dataclass(frozen=True)
class Plan:
    """Cases, and what was left out.

    Attributes:
        cases: In the order in which they are judged.
        sizes: What sizes do in the graph, and what was left out; None where the cases were given.
    """

    cases: tuple[Case, ...]
    sizes: Sizes | None = None


def plan(model: ir.Model, specs: Sequence[TensorSpec], example: Mapping[str, int], seed: int) -> Plan:
    """Return the cases of a sweep over a model's inputs."""
    core = sweep(specs, example, seed)
    work = partial(Work.of(model).of_case, specs)
    dims = list(merge_dims(specs).values())
    spent = sum(work(case.sizes) for case in core)
    seen = {size_label(case.sizes) for case in core}
    uses, unknown, wanted = asked(model, specs, work)
    asking = _Budget(work, max(_ASKED_SHARE * spent, _ASKED_SMALL), seen)
    taken = asking.take(wanted[:_MOST_ASKED])
    further = _Budget(work, max(_SHARE * spent - asking.spent, _SMALL), seen)
    taken += further.take(sorted(classes.alone(dims), key=work))
    taken += further.take(classes.in_pairs(dims, work))
    drawn = ("normal", masks.ALL_ONES) if masks.kinds(specs) else ("normal",)
    cases = [sized(sizes, drawn[index % len(drawn)], seed + len(core) + index) for index, sizes in enumerate(taken)]
    left_out = *asking.left_out, *(size_label(sizes) for sizes in wanted[_MOST_ASKED:]), *further.left_out
    number = len(asking.left_out) + len(wanted[_MOST_ASKED:])
    return Plan((*core, *cases), Sizes(uses, unknown, tuple(dict.fromkeys(left_out)), number))


def asked(
    model: ir.Model, specs: Sequence[TensorSpec], work: Callable[[Mapping[str, int]], int]
) -> tuple[tuple[SizeUse, ...], str | None, list[dict[str, int]]]:
    """Return where sizes become numbers or conditions, why that is not known, and the sizes that it asks for."""
    dims = list(merge_dims(specs).values())
    flow = Flow(model)
    try:
        flow.follow(specs)
    except TooLargeError as error:
        return (), f"the graph is not followed: {error}", []
    except Exception as error:  # noqa: BLE001 - a graph that no checker took; the runtimes say what is wrong with it
        expose_own(error)
        return (), f"the graph is not followed: {first_line(error)}", []
    if not dims or not flow.uses:
        return tuple(_reported(flow.uses)), None, []
    deciding = _aim(dims, flow.uses).deciding()
    uses = [use for use in flow.uses if not use.shapes_only or not deciding.isdisjoint(parts(use.expressions))]
    return tuple(_reported(uses)), None, _aim(dims, uses).wanted(work) if uses else []


def _aim(dims: Sequence[Dim], uses: Sequence[Use]) -> Aim:
    numbers = [each for use in uses if not use.shapes_only for each in use.expressions]
    return Aim(dims, numbers, [each for use in uses if use.shapes_only for each in use.expressions])


def _reported(uses: Sequence[Use]) -> Iterator[SizeUse]:
    """Yield each place once, with what is computed there."""
    for node in dict.fromkeys(use.node for use in uses):
        found = (str(each) for use in uses if use.node is node for each in use.expressions if each.number is None)
        yield SizeUse(
            str(node.name or node.outputs[0].name), node.op_type, ", ".join(dict.fromkeys(found)) or "positions"
        )


class _Budget:
    """Takes sizes for as long as there is work left."""

    def __init__(self, work: Callable[[Mapping[str, int]], int], most: float, seen: set[str]) -> None:
        self._work, self._most, self._seen = work, most, seen
        self.spent = 0
        self.left_out: list[str] = []

    def take(self, wanted: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
        """Return those of the sizes that are new and have a place."""
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
