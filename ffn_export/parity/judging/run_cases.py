"""Verification in one call: every case on every runtime, then the checks, weights and properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array, Progress, silent
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.parity.cases.case import Case
from ffn_export.parity.cases.chosen import chosen_cases
from ffn_export.parity.checks import interface, properties
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes, nodes_of_outputs
from ffn_export.parity.checks.registry import run_checks
from ffn_export.parity.checks.weights import Weights, compare_weights
from ffn_export.parity.judging.causes import Causes
from ffn_export.parity.judging.evidence import Evaluated, Keeper
from ffn_export.parity.judging.imprecise_operators import imprecise_operators
from ffn_export.parity.judging.measures import PropertyMetrics
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.runtime_quirks import of_operators, of_runtime, on_values
from ffn_export.parity.judging.select_runtimes import load
from ffn_export.parity.judging.tolerances import Tolerances, check_declared
from ffn_export.parity.reference import conditioning
from ffn_export.parity.reference.references import Reference
from ffn_export.runtimes import environment
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.runtimes.torch_eager import torch_threads_kept

# Draws of the conditioning, measured where an error is beyond its bound but at most so many times.
# Most cases need none, and most faults exceed the second limit.
_DRAWS = ((conditioning.DRAWS, math.inf), (conditioning.MORE_DRAWS, 16.0))
Item = TypeVar("Item")
Result = TypeVar("Result")


@torch_threads_kept()
def run_cases(
    path: Path,
    reference: Reference,
    *,
    runtimes: Sequence[str] | None = None,
    settings: SessionSettings | None = None,
    cases: Sequence[Case] | None = None,
    further: Sequence[Case] = (),
    fast: bool = False,
    tolerances: Tolerances | None = None,
    seed: int = 0,
    threads: int = 1,
    jobs: int = 1,
    keepers: Sequence[Keeper] = (),
    for_each_run: bool = False,
    progress: Progress = silent,
) -> ParityResult:
    """Verify an ONNX file against its reference.

    Args:
        path: The ONNX file.
        reference: Reference that the file should agree with.
        runtimes: Names of the runtimes that must judge the file. None means every default runtime that can run it
            here; if none can, the runtimes of last resort.
        settings: Session options.
        cases: Inputs; None means cases planned from the graph.
        further: Cases in addition to ``cases``: the user's samples.
        fast: Whether to draw a few cases, and to aim none at the graph.
        tolerances: Allowed errors.
        seed: Seed of the drawn inputs.
        threads: Intra-op threads of every runtime.
        jobs: Number of cases that run at the same time, in threads of this process.
        keepers: Objects that store data of every case.
        for_each_run: Whether to load the file for each run and let go of it, to need less memory.
        progress: Called with one line for each case.

    Raises:
        RuntimeUnavailableError: If a runtime requested by name cannot run here.
        UsageError: If the name of a runtime is unknown, tolerances are declared for an unknown output, an output is
            a sequence or optional, or the file is no ONNX model.
    """
    model = onnx_file.load(path)
    _check_tensors(model)
    check_declared(tolerances or Tolerances(), [str(value.name) for value in model.graph.outputs])
    artifact = Artifact(path, reference.source, settings or SessionSettings())
    loaded, broken, unavailable = load(artifact, runtimes, threads, for_each_run=for_each_run)
    chosen = chosen_cases(
        model,
        reference,
        given=cases,
        further=further,
        threads=threads,
        seed=seed,
        runs=bool(loaded),
        fast=fast,
        has_budget=tolerances is not None and tolerances.relative_l2 is not None,
    )
    cases = chosen.cases
    nodes = tuple(computed_nodes(model))
    imprecise = {name: imprecise_operators(nodes, get_runtime(name)) for name in loaded}
    known = {name: of_operators(behind) for name, behind in nodes_of_outputs(model).items()}
    causes = Causes(artifact, tolerances or Tolerances())

    def judged(numbered: tuple[int, Case]) -> tuple[tuple[CaseResult, ...], Mapping[tuple[str, int], str]]:
        index, case = numbered
        progress(f"verifying {case.name} ({index + 1} of {len(cases)})")
        evaluated = _evaluated(case, reference, loaded, imprecise, known, tolerances or Tolerances())
        evaluated = replace(evaluated, results=causes.named(evaluated, reference.inputs))
        for keeper in keepers:
            evaluated = replace(evaluated, results=keeper.keep(evaluated))
        return evaluated.results, interface.output_differences(model, evaluated.feeds, evaluated.truths)

    found: list[CaseResult] = []
    misdeclared: dict[tuple[str, int], str] = {}  # (output, axis) -> difference, from the first case that shows it
    for results, differing in _in_order(judged, list(enumerate(cases)), jobs):
        found += results
        misdeclared = {**differing, **misdeclared}
    if loaded:
        progress("verifying properties")
    run = CheckedRun(
        path, model, reference, cases, found, tuple(loaded), unavailable, tuple(misdeclared.values()), tolerances
    )
    checks = run_checks(run)
    found_weights = _weights(run)
    return ParityResult(
        model=path.name,
        against=reference.name,
        tolerances=tolerances or Tolerances(),
        cases=(*broken, *found),
        unavailable=unavailable,
        checks=checks,
        weights=found_weights.traced,
        untraced=found_weights.untraced,
        unheld=found_weights.unheld,
        properties=_properties(run, loaded),
        sizes=chosen.sizes,
        notes=(
            *properties.expected_breaks(model),
            *(note for check in checks for note in check.notes),
            *chosen.notes,
            *_not_run(path.name, loaded),
        ),
        placement={name: runner.placement() for name, runner in loaded.items()},
        precision={name: runner.precision() for name, runner in loaded.items()},
        environment=environment.current(threads),
        fast=fast,
    )


def _check_tensors(model: ir.Model) -> None:
    for value in model.graph.outputs:
        if isinstance(value.type, ir.SequenceType | ir.OptionalType):
            kind = "a sequence" if isinstance(value.type, ir.SequenceType) else "optional"
            raise UsageError(
                f"output {value.name!r} is {kind}, and tensors alone are compared: make each of its tensors an output"
            )


def _not_run(model: str, loaded: Collection[str]) -> tuple[str, ...]:
    """Return a note if every judge runs the module, since then only the weights of the file are compared."""
    if not loaded or not all(get_runtime(name).runs_module for name in loaded):
        return ()
    judges = " and ".join(loaded)
    return (f"{model} itself was not run, only the PyTorch module: by {judges}; ask a runtime of the file too",)


def _in_order(work: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """Yield the result for each item, in order, running ``jobs`` items at a time."""
    if not isinstance(jobs, int) or jobs < 1:
        raise UsageError(f"{jobs!r} jobs judge nothing: take 1 or more")
    if jobs == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(work, items)  # an interrupt cancels all cases but those that are running


def _evaluated(
    case: Case,
    reference: Reference,
    loaded: Mapping[str, Runner],
    imprecise: Mapping[str, tuple[str, ...]],
    of_outputs: Mapping[str, tuple[str, ...]],
    tolerances: Tolerances,
) -> Evaluated:
    """Run one case on the reference and on every runtime, noting imprecise operators and caveats."""

    def result(runtime: str, **outcome: Any) -> CaseResult:
        return CaseResult(runtime, case.name, case.sizes, case.values, case.seed, **outcome)

    feeds = case.feeds(reference.inputs)
    try:
        expected = reference.evaluate(feeds)
        judged = {
            o: (case.judged(reference.inputs, t), case.judged(reference.inputs, b)) for o, (t, b) in expected.items()
        }
        truths = {name: truth for name, (truth, _) in expected.items()}
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything on a size that it refuses
        expose_own(error)
        reason = f"{reference.name} itself refuses these inputs: {first_line(error)}"
        return Evaluated(case, feeds, {}, {}, tuple(result(name, skipped=reason) for name in loaded))
    outputs: dict[str, Mapping[str, Array]] = {}
    refused: dict[str, CaseResult] = {}
    for name, runner in loaded.items():
        try:
            outputs[name] = runner.run(feeds)
        except RuntimeUnavailableError as error:  # only for inputs of this size
            refused[name] = result(name, skipped=str(error))
        except Exception as error:  # noqa: BLE001 - onnxruntime's own exceptions derive from Exception alone
            expose_own(error)
            refused[name] = result(name, error=f"the runtime failed: {first_line(error)}")

    def compared(name: str, allowed: Mapping[str, float]) -> CaseResult:
        gave = {o: case.judged(reference.inputs, array) for o, array in outputs[name].items()}
        metrics = tuple(
            replace(
                compare(o, gave.get(o), truth, own, allowed.get(o, 0.0), reference.computed_in.get(o)),
                caveats=on_values(case.values, of_outputs.get(o, ())),
            )
            for o, (truth, own) in judged.items()
        )
        known = {"imprecise_operators": imprecise[name], "caveats": on_values(case.values, of_runtime(name))}
        return result(name, outputs=metrics, **known)

    unordered = conditioning.without_order(feeds, truths)
    found = {name: compared(name, unordered) for name in outputs}
    for draws, near in _DRAWS:
        outside = [name for name, each in found.items() if 1 < each.factor(tolerances) <= near]
        moved = _moved(case, reference, feeds, expected, draws) if outside else None
        if moved is None:
            break
        found |= {name: compared(name, moved | unordered) for name in outside}
    return Evaluated(case, feeds, truths, outputs, tuple((found | refused)[name] for name in loaded))


def _moved(
    case: Case,
    reference: Reference,
    feeds: Mapping[str, Array],
    expected: Mapping[str, tuple[Array, Array]],
    draws: int,
) -> dict[str, float] | None:
    """Return output name -> conditioning; None if the module refuses inputs that are one rounding away."""
    is_ill = case.ill_conditioned
    try:
        return conditioning.allowed(reference, feeds, expected, case.seed, ill_conditioned=is_ill, draws=draws)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything on values that it refuses
        expose_own(error)
        return None


def _weights(run: CheckedRun) -> Weights:
    source = run.reference.source
    return Weights() if source is None else compare_weights(run.model, source.module, run.module_trace)


def _properties(run: CheckedRun, loaded: Mapping[str, Runner]) -> tuple[PropertyMetrics, ...]:
    """Test the properties of the reference on every runtime, on the first case with comparable results."""
    ran = [result for result in run.results if result.outputs and all(o.problem is None for o in result.outputs)]
    case = run.first(ran)
    if case is None:
        return ()
    asked = properties.questions(run.reference, case)
    feeds = case.feeds(run.reference.inputs)
    on_case = [result for result in ran if result.case == case.name]
    own = {output.output: output for result in on_case for output in result.outputs}
    runners = {result.runtime: loaded[result.runtime] for result in on_case}
    return tuple(each for name, runner in runners.items() for each in properties.ask(name, runner, feeds, asked, own))
