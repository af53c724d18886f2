"""The cases that a model is judged on: one function for every command that judges, so that all judge alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.parity.cases.case import Case, few, samples_of
from ffn_export.parity.cases.sizes.plan import Plan, plan
from ffn_export.parity.cases.sizes.report import Sizes
from ffn_export.parity.cases.thresholds.aimed import Aimed, aimed
from ffn_export.parity.reference.references import Reference


@dataclass(frozen=True)
class Chosen:
    """Cases, and what they leave out.

    Attributes:
        cases: Cases, in the order in which they run.
        sizes: Uses of sizes in the graph, and sizes left out; None if the caller gave the cases.
        notes: Thresholds of the graph with a side that no case reaches.
    """

    cases: tuple[Case, ...]
    sizes: Sizes | None = None
    notes: tuple[str, ...] = ()


def chosen_cases(
    model: ir.Model,
    reference: Reference,
    *,
    given: Sequence[Case] | None = None,
    further: Sequence[Case] = (),
    threads: int = 1,
    seed: int = 0,
    runs: bool = True,
    fast: bool = False,
    has_budget: bool,
) -> Chosen:
    """Return the cases for a model, which depend on nothing but the arguments.

    Args:
        model: The graph under test.
        reference: Reference of the model.
        given: Cases in place of those planned from the graph.
        further: Cases in addition.
        threads: Number of threads.
        seed: Seed of the drawn inputs.
        runs: Whether the graph can run here; if not, no case is aimed at its thresholds.
        fast: Whether to draw a few cases, for an edit loop, and to aim none at the graph.
        has_budget: Whether a budget is declared. Floats are then drawn from the arrays of the further cases, since a
            budget is for inputs of their size; otherwise they are standard normal.
    """
    if given is None and fast:
        given = few(reference.inputs, reference.example, seed)
    planned = plan(model, reference.inputs, reference.example, seed) if given is None else Plan(tuple(given))
    like = samples_of(further) if has_budget else None
    cases = [*(replace(case, like=like) if case.given is None else case for case in planned.cases), *further]
    aim = aimed(model, reference, cases, threads, seed, planned.asked) if runs and not fast else Aimed()
    return Chosen((*cases, *aim.cases), planned.sizes, aim.notes)
