"""The cases that a model is judged on by default: the core, what its graph asks for, and sizes of every class.

What comes beside the core has a budget, as a share of the work that the core is, so that a whole model takes no longer
to verify than its core allows. A small model may do more. What has no place in it is told by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.exporter.tensor_spec import TensorSpec, merge_dims
from ffn_export.parity import masks
from ffn_export.parity.cases import Case, sized, sweep
from ffn_export.parity.sizes import classes
from ffn_export.parity.sizes.report import Sizes
from ffn_export.parity.sizes.work import Work
from ffn_export.size_label import size_label

# Work beside the core: at most the share of the core, and as much as this for a model that is small.
_SHARE = 0.75
_SMALL = 1_000_000_000


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
    work = Work.of(model)
    dims = list(merge_dims(specs).values())
    used = sum(work.of_case(specs, case.sizes) for case in core)
    budget = _Budget(specs, work, max(_SHARE * used, _SMALL), {size_label(case.sizes) for case in core})
    singles = sorted(classes.alone(dims), key=lambda sizes: work.of_case(specs, sizes))
    taken = budget.take(singles)
    taken += budget.take(classes.in_pairs(dims, lambda sizes: work.of_case(specs, sizes)))
    drawn = ("normal", masks.ALL_ONES) if masks.kinds(specs) else ("normal",)
    further = [sized(sizes, drawn[index % len(drawn)], seed + len(core) + index) for index, sizes in enumerate(taken)]
    return Plan((*core, *further), Sizes(left_out=tuple(budget.left_out)))


class _Budget:
    """Takes sizes for as long as there is work left."""

    def __init__(self, specs: Sequence[TensorSpec], work: Work, left: float, seen: set[str]) -> None:
        self._specs, self._work, self._left, self._seen = specs, work, left, seen
        self.left_out: list[str] = []

    def take(self, wanted: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
        """Return those of the sizes that are new and have a place."""
        taken = []
        for sizes in wanted:
            label = size_label(sizes)
            if label in self._seen:
                continue
            self._seen.add(label)
            work = self._work.of_case(self._specs, sizes)
            if work > self._left:
                self.left_out.append(label)
                continue
            self._left -= work
            taken.append(sizes)
        return taken
