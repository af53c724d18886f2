"""Run the original model once on drawn inputs, and compare fused graphs with its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ffn_export.core import onnx_file, tapped_graphs
from ffn_export.core.drawing import is_floating
from ffn_export.core.node_graphs import graphs_of
from ffn_export.fusion.pipeline import Fusion, sorted_copy
from ffn_export.fusion.views import is_read, node_count
from ffn_export.fusion_check import default_level, random_nodes
from ffn_export.fusion_check import inputs as drawn
from ffn_export.fusion_check.difference import MOST, WHOLE_GRAPH, difference, tolerance_of, tolerances_at
from ffn_export.fusion_check.inputs import Case
from ffn_export.fusion_check.limits import Deadline
from ffn_export.fusion_check.running import EVALUATOR, ORT, RefusedError, Run, Runtimes
from ffn_export.runtimes.base import Runtime
from ffn_export.runtimes.session_options import UNPACKED

_UNKNOWN_AXIS = 16
_UNKNOWN_VALUE_BYTES = 2**20


class CannotCompareError(Exception):
    """The graphs cannot be run or compared; the message says why."""


@dataclass(frozen=True)
class Finding:
    """Result of a comparison.

    Attributes:
        worst: Largest relative difference within the tolerance, of a value or output in the cut graph.
        guilty: Rewritten value -> how it differs in the cut graph.
        problem: Difference that belongs to no single rewritten value; None without one.
    """

    worst: float = 0.0
    guilty: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the graphs differ."""
        return bool(self.guilty) or self.problem is not None


class Trial:
    """The recorded runs of a model, with which fused graphs are compared.

    Raises:
        CannotCompareError: If the model cannot be run here.
        OutOfTimeError: If the time is over before the first result.
    """

    def __init__(self, model: ir.Model, fusion: Fusion, runtimes: Runtimes, deadline: Deadline) -> None:
        self._runtimes = runtimes
        self._deadline = deadline
        self._limits = deadline.limits
        self._target = fusion.report.target
        self._outputs = [str(value.name) for value in model.graph.outputs]
        self.tolerance = max(tolerance_of(model), tolerance_of(fusion.model))
        weights = onnx_file.weight_bytes(model)
        if weights > self._limits.weight_bytes:
            bound = self._limits.weight_bytes / 1e9
            raise CannotCompareError(f"its weights take {weights / 1e9:.1f} GB, models of up to {bound:.1f} GB are run")
        draws = random_nodes.first_of(model)
        if draws is not None:
            raise CannotCompareError(f"{draws} draws random numbers, so that no two runs of the model are the same")
        copied = sorted_copy(model)
        if copied is None:
            raise CannotCompareError("its nodes have no order in which they could be run")
        self._model = copied
        try:
            inputs = drawn.inputs_of(model)
        except ValueError as error:
            raise CannotCompareError(str(error)) from error
        self._observed = _comparable(copied, fusion, self._limits.value_bytes)
        self.runtime: Runtime = ORT
        try:
            self.cases = self._record(inputs)
        except RefusedError as refused:
            if weights > self._limits.evaluator_bytes:
                raise CannotCompareError(str(refused)) from refused
            self.runtime = EVALUATOR
            try:
                self.cases = self._record(inputs)
            except RefusedError as also:
                raise CannotCompareError(f"{refused}; {also}") from also

    def compare(self, fusion: Fusion) -> Finding:
        """Run a fused graph: cut at each rewritten value, then whole, then at the default level of ONNX Runtime.

        Raises:
            CannotCompareError: If nothing here can run the fused graph.
            OutOfTimeError: If the time is over.
        """
        self._deadline.require()
        recorded = self.cases[0].expected
        # Values whose rewrite was undone are compared too: another rule may have rewritten a part of their site.
        types = {name: ir.DataType.from_numpy(recorded[name].dtype) for name in self._observed}
        try:
            pieces, at = tapped_graphs.cut(fusion.model, types)
            with self._runtimes.loaded(pieces, self.runtime, UNPACKED) as run:
                finding = self._compare_cut(run, fusion, at)
            if not finding.differs:
                self._deadline.require()
                with self._runtimes.loaded(fusion.model.clone(), self.runtime, UNPACKED) as run:
                    finding = self._compare_whole(run, finding)
            if not finding.differs and self.runtime is ORT and self.left_out(fusion) is None:
                self._deadline.require()
                problem = default_level.problem(
                    self._runtimes, self._model, fusion.model, self.cases, self._outputs, self._whole_bound
                )
                finding = replace(finding, problem=problem)
        except RefusedError as refused:
            if self.runtime is EVALUATOR or (self._target == "ort-cuda" and "lacks a kernel" in str(refused)):
                raise CannotCompareError(str(refused)) from refused
            return Finding(problem=str(refused))
        return finding

    def left_out(self, fusion: Fusion) -> str | None:
        """Return why a fused graph is not run at the default level; None if it is."""
        nodes, most = node_count(fusion.model), self._limits.optimised_nodes
        return f"not at the default level, {nodes} nodes are more than {most}" if nodes > most else None

    def _record(self, inputs: tuple[drawn.Input, ...]) -> tuple[Case, ...]:
        self._deadline.require()
        with self._runtimes.loaded(tapped_graphs.observed(self._model, self._observed), self.runtime, UNPACKED) as run:
            base = self._first(run, inputs)
            cases = [base]
            scales = [scale for scale in drawn.SCALES if scale != "normal" and any(i.is_floating for i in inputs)]
            for sizes, scale in (
                *((base.sizes, scale) for scale in scales),
                *((sizes, "normal") for sizes in drawn.further_sizes(inputs, base.sizes)),
            ):
                if self._deadline.elapsed < self._limits.seconds / 4:
                    cases.extend(self._given(run, inputs, sizes, scale))
        return tuple(cases)

    def _first(self, run: Run, inputs: tuple[drawn.Input, ...]) -> Case:
        """Return the first case that the model accepts."""
        refused: Exception | None = None
        for sizes in drawn.base_sizes(inputs):
            self._deadline.require()
            try:
                feeds = drawn.draw(inputs, sizes)
                return Case(sizes, feeds, run(feeds))
            except (RefusedError, ValueError, ZeroDivisionError) as error:
                refused = refused or error
        raise CannotCompareError(f"the model itself does not run on drawn inputs: {refused}")

    def _given(self, run: Run, inputs: tuple[drawn.Input, ...], sizes: drawn.Sizes, scale: str) -> Iterator[Case]:
        try:
            feeds = drawn.draw(inputs, sizes, scale)
            yield Case(sizes, feeds, run(feeds))
        except (RefusedError, ValueError, ZeroDivisionError):
            return  # sizes that this model does not accept

    def _compare_cut(self, run: Run, fusion: Fusion, at: tuple[str, ...]) -> Finding:
        worst, guilty, problem = 0.0, dict[str, str](), None
        tolerances = tolerances_at(self._model, at, self.tolerance)
        for case in self.cases:
            self._deadline.require()
            given = {name: case.expected[name] for name in at}
            actual = run({**case.feeds, **given})
            compared = dict.fromkeys((*at, *self._outputs))
            integers = not any(is_floating(case.expected[name]) for name in compared)
            for name in compared:
                own = actual[f"{name}{tapped_graphs.SUFFIX}" if name in at else name]
                found = difference(case.expected[name], own, integers=integers)
                if found.relative <= tolerances.get(name, self.tolerance):
                    worst = max(worst, found.relative)
                elif name in fusion.values:
                    guilty.setdefault(name, found.words())
                else:
                    problem = problem or f"value {name!r}: {found.words()}"
        return Finding(worst, guilty, problem)

    def _compare_whole(self, run: Run, finding: Finding) -> Finding:
        for case in self.cases:
            self._deadline.require()
            actual = run(case.feeds)
            for name in self._outputs:
                found = difference(case.expected[name], actual[name])
                if found.relative > self._whole_bound:
                    return Finding(finding.worst, problem=f"output {name!r} of the whole graph: {found.words()}")
        return finding

    @property
    def _whole_bound(self) -> float:
        return min(WHOLE_GRAPH * self.tolerance, MOST)


def _comparable(model: ir.Model, fusion: Fusion, most_bytes: int) -> tuple[str, ...]:
    """Return the rewritten values that both graphs compute under one name, as far as memory allows.

    Values inside the bodies of ``If`` and ``Loop`` are compared through the outputs of these nodes.
    """
    rewritten = set(fusion.values)
    for node in fusion.model.graph:
        if any(v.name in rewritten for body in graphs_of(node) for inner in body.all_nodes() for v in inner.outputs):
            rewritten.update(str(value.name) for value in node.outputs)
    before = {value.name for value in tapped_graphs.computed(model.graph)}
    taken, used = [], 0
    for value in tapped_graphs.computed(fusion.model.graph):
        if value.name not in rewritten or value.name not in before or not is_read(value):
            continue
        used += _estimated_bytes(value)
        if used > most_bytes:
            break
        taken.append(str(value.name))
    return tuple(taken)


def _estimated_bytes(value: ir.Value) -> int:
    if value.shape is None:
        return _UNKNOWN_VALUE_BYTES
    size = 4
    for dim in value.shape:
        size *= dim if isinstance(dim, int) else _UNKNOWN_AXIS
    return size
