"""Bisection in one call: try the failing cases in turn, until one locates the fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array, Progress, silent
from ffn_export.fusion_check.running import Runtimes, runtimes
from ffn_export.parity.bisection.bisect_case import Examination, Examined
from ffn_export.parity.bisection.cuts import cast
from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.bisection.pairs import of_interface
from ffn_export.parity.bisection.reduce import Reduced, Reducer
from ffn_export.parity.bisection.result import Bisection, Verdict
from ffn_export.parity.bisection.runs import MOST_BYTES, Runs, Side, reference_side
from ffn_export.parity.bisection.unrolled import unrolled
from ffn_export.parity.bisection.whole_graph import WholeGraph
from ffn_export.parity.cases.case import Case
from ffn_export.parity.checks.computed_nodes import nodes_of_outputs
from ffn_export.parity.judging.imprecise_operators import imprecise_operators
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.runtime_quirks import of_operators, of_runtime, on_values
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference import conditioning
from ffn_export.parity.reference.references import Reference
from ffn_export.runtimes.base import Runtime
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings
from ffn_export.runtimes.torch_eager import torch_threads_kept

# Verdicts, the most informative first.
_BY_WEIGHT: tuple[Verdict, ...] = ("node", "session", "initializer", "accumulated", "outside", "nothing")


@dataclass(frozen=True)
class Suspect:
    """The model under test.

    Attributes:
        path: The ONNX file.
        runtime: Runtime that runs it.
        settings: Session options that it is verified with.
        failures: Failures that the verification reported.
    """

    path: Path
    runtime: Runtime
    settings: SessionSettings
    failures: tuple[str, ...] = ()


def suspect_of(path: Path, settings: SessionSettings, result: ParityResult, runtime: str | None) -> Suspect:
    """Return a verified model with the runtime to bisect on.

    Args:
        path: The ONNX file.
        settings: Session options that it was verified with.
        result: Result of the verification.
        runtime: Name of a runtime; None means the first on which a case failed, else ``ort-cpu``.

    Raises:
        UsageError: If no runtime has this name.
    """
    failed = (case.runtime for case in result.cases if case.status(result.tolerances) == "failed")
    return Suspect(path, get_runtime(runtime or next(failed, OrtCpu.name)), settings, result.failures)


@dataclass(frozen=True)
class Search:
    """The search for the first place where a model differs from its reference.

    Attributes:
        suspect: The model under test.
        reference: Reference of the outputs.
        reference_model: The reference as an unfused graph, for the inner values.
        tolerances: Allowed errors.
        threads: Intra-op threads of every runtime.
        reduce: Whether to extract the smallest part that fails.
        most_bytes: Memory bound of the values held at a time.
    """

    suspect: Suspect
    reference: Reference
    reference_model: ir.Model
    tolerances: Tolerances = field(default_factory=Tolerances)
    threads: int = 1
    reduce: bool = False
    most_bytes: int = MOST_BYTES

    @torch_threads_kept()
    def over(self, cases: Sequence[Case], progress: Progress = silent) -> tuple[Bisection, Reduced | None]:
        """Try cases in turn, until one shows a wrong node; ``progress`` is called with one line for each.

        Returns:
            The result, and the reduced part if it was requested and one fails.

        Raises:
            UsageError: If the file is no ONNX model.
        """
        best: tuple[Bisection, Reduced | None] | None = None
        for case in cases:
            progress(f"bisecting {case.name}")
            found = self._on(case)
            if best is None or _BY_WEIGHT.index(found[0].verdict) < _BY_WEIGHT.index(best[0].verdict):
                best = found
            if best[0].verdict == "node":
                break
        assert best is not None, "there is a case for any model"
        return best

    def _on(self, case: Case) -> tuple[Bisection, Reduced | None]:
        blank = Bisection(
            self.suspect.path.name,
            self.reference.name,
            self.suspect.runtime.name,
            case.name,
            case.sizes,
            "outside",
            next(iter(self.suspect.failures), ""),
        )
        mine, theirs = Graph(onnx_file.load(self.suspect.path)), Graph(self.reference_model)
        inputs = of_interface(mine, theirs).inputs
        alone = next((str(v.name) for v in mine.inputs if v.name not in inputs), None)
        if alone is not None:
            return replace(blank, reason=f"the model has an input {alone!r} that the reference does not have"), None
        feeds = case.feeds(self.reference.inputs)
        with runtimes(self.threads) as running:
            runs = Runs(running, case.sizes, self.most_bytes)
            try:
                wanted = self.reference.evaluate(feeds)
                ill = case.ill_conditioned
                moved = conditioning.allowed(self.reference, feeds, wanted, case.seed, ill_conditioned=ill)
                theirs = _written_out(theirs, _fitting(theirs, feeds), running, OrtCpu())
                other = reference_side(runs, theirs, _fitting(theirs, feeds), OrtCpu())
            except Exception as error:  # noqa: BLE001 - a user's module may raise anything on a size that it refuses
                expose_own(error)
                reason = f"{self.reference.name} itself refuses these inputs: {first_line(error)}"
                return replace(blank, reason=reason), None
            given = _by_own_names(mine, inputs, feeds)
            own = Side(_written_out(mine, given, running, self.suspect.runtime), self.suspect.runtime, given)
            imprecise = imprecise_operators(own.graph.model.graph.all_nodes(), own.runtime)
            whole = WholeGraph(
                self.suspect.path,
                own.runtime,
                self.threads,
                given,
                wanted,
                moved,
                self.tolerances,
                excused=bool(imprecise),
                caveats={
                    name: on_values(case.values, of_runtime(own.runtime.name), of_operators(nodes))
                    for name, nodes in nodes_of_outputs(own.graph.model).items()
                },
            )
            examination = Examination(own, other, whole, runs, self.tolerances, case.ill_conditioned)
            examined = self._examined(examination, blank)
            reduced = self._reduced(examined)
            nodes = None if reduced is None else len(reduced.model.graph)
            return replace(examined.bisection, reduced_nodes=nodes), reduced

    def _examined(self, examination: Examination, blank: Bisection) -> Examined:
        examined = examination.examine(blank, self.suspect.settings)
        if examined.bisection.verdict == "nothing" and self.suspect.failures:
            reason = (
                f"every node and the whole graph are right on these inputs; what failed: {self.suspect.failures[0]}"
            )
            return replace(examined, bisection=replace(examined.bisection, verdict="outside", reason=reason))
        return examined

    def _reduced(self, examined: Examined) -> Reduced | None:
        if not self.reduce or examined.value is None:
            return None
        settings = examined.settings or NO_OPTIMIZER
        return Reducer(examined.cuts, self.tolerances, settings).smallest(examined.value)


def _written_out(graph: Graph, feeds: Mapping[str, Array], runtimes: Runtimes, runtime: Runtime) -> Graph:
    """Return a graph without branches and short loops, as they run on these inputs."""

    def run(model: ir.Model) -> Mapping[str, Array]:
        with runtimes.loaded(model, runtime) as run_once:
            return run_once(feeds)

    model = unrolled(graph.model, feeds, run)
    return graph if model is graph.model else Graph(model)


def _fitting(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the feeds of the graph's inputs, since the exporter drops unused ones."""
    return {str(value.name): feeds[str(value.name)] for value in graph.inputs if value.name in feeds}


def _by_own_names(graph: Graph, inputs: Mapping[str, str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the feeds under the suspect's names and in its dtypes."""
    dtypes = {str(value.name): value.dtype for value in graph.inputs}
    return {mine: cast(feeds[theirs], dtypes[mine]) for mine, theirs in inputs.items() if theirs in feeds}
