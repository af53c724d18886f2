"""Measure the distance of a graph's values from its thresholds, by running it with the distances as outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.fusion_check.running import ORT, RefusedError, Run, Runtimes
from ffn_export.parity.cases.sizes.work import Work
from ffn_export.parity.cases.thresholds.find import Threshold

Side = Literal["below", "equal", "above", "other"]
Met = frozenset[tuple[Threshold, Side]]
"""Thresholds, each with a side on which values arrive."""


def wanted(threshold: Threshold) -> Met:
    """Return the sides on which values have to arrive."""
    sides: tuple[Side, ...] = ("equal", "other") if threshold.asks_equal else ("below", "above")
    return frozenset((threshold, side) for side in sides)


@dataclass(frozen=True)
class Observer:
    """A loaded graph that outputs the distances of values from thresholds."""

    run: Run
    thresholds: Sequence[Threshold]
    work: Work

    def met(self, feeds: Mapping[str, Array]) -> Met:
        """Return the sides that values arrive on; none if the graph does not run on these inputs."""
        try:
            results = self.run(feeds)
        except RefusedError:
            return frozenset()
        found: set[tuple[Threshold, Side]] = set()
        for index, threshold in enumerate(self.thresholds):
            low, high, nearest = (float(results[f"{kind}_{index}"]) for kind in ("low", "high", "nearest"))
            if threshold.asks_equal:
                sides: dict[Side, bool] = {"equal": nearest == 0, "other": low < 0 or high > 0}
            else:
                above = threshold.equal_is_above if nearest == 0 else None
                sides = {"below": low < 0 or above is False, "above": high > 0 or above is True}
            found.update((threshold, side) for side, is_met in sides.items() if is_met)
        return frozenset(found)


@contextmanager
def observer(model: ir.Model, thresholds: Sequence[Threshold], runtimes: Runtimes) -> Iterator[Observer]:
    """Load a graph without functions and branches; its outputs are the least, most and nearest distance of thresholds.

    Raises:
        RefusedError: If ONNX Runtime does not load the graph.
    """
    edit = _Editor(model)
    for index, threshold in enumerate(thresholds):
        distance = edit.distance(threshold)
        edit.output(f"low_{index}", edit.of("ReduceMin", distance, keepdims=0))
        edit.output(f"high_{index}", edit.of("ReduceMax", distance, keepdims=0))
        edit.output(f"nearest_{index}", edit.of("ReduceMin", edit.of("Abs", distance), keepdims=0))
    made = edit.finished()
    work = Work.of(made)
    with runtimes.loaded(made, ORT) as run:
        yield Observer(run, thresholds, work)


@contextmanager
def distances(model: ir.Model, thresholds: Sequence[Threshold], runtimes: Runtimes) -> Iterator[Run]:
    """Load the graph with the distance of each element from thresholds as outputs ``0``, ``1`` and so on.

    Raises:
        RefusedError: If ONNX Runtime does not load the graph.
    """
    edit = _Editor(model)
    for index, threshold in enumerate(thresholds):
        edit.output(str(index), edit.distance(threshold))
    with runtimes.loaded(edit.finished(), ORT) as run:
        yield run


def on_integers(
    model: ir.Model, thresholds: Sequence[Threshold], spec: TensorSpec, span: Array, runtimes: Runtimes, axis: int = -1
) -> list[tuple[Threshold, Array]]:
    """Return the distances of integers along an axis from each threshold that can run on all of them at once."""
    copied = model.clone()
    shape = [1] * len(spec.dims)
    shape[axis] = -1
    feeds = {spec.name: span.reshape(shape)}
    for value in copied.graph.inputs:
        if value.name != spec.name and not value.is_initializer() and value.shape is not None:  # read by no threshold
            feeds[str(value.name)] = np.zeros([1] * len(value.shape), (value.dtype or ir.DataType.FLOAT).numpy())
        value.shape = None  # a declared size does not fit the number of integers
    try:
        with distances(copied, thresholds, runtimes) as run:
            return list(zip(thresholds, run(feeds).values(), strict=True))
    except RefusedError:
        if len(thresholds) == 1:
            return []
    half = len(thresholds) // 2
    halves = (thresholds[:half], thresholds[half:])
    return [each for part in halves for each in on_integers(model, part, spec, span, runtimes, axis)]


class _Editor:
    """Appends nodes to a copy of a model, whose outputs are only what is written."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model.clone()
        self._graph = graph = self._model.graph
        graph.outputs.clear()
        values = [*graph.inputs, *graph.initializers.values(), *(each for node in graph for each in node.outputs)]
        self._values = {str(value.name): value for value in values}
        self._wide: dict[ir.Value, ir.Value] = {}

    def finished(self) -> ir.Model:
        """Return the model, without the nodes that no output needs."""
        RemoveUnusedNodesPass()(self._model)
        return self._model

    def of(self, operator: str, *inputs: ir.Value, **attributes: int) -> ir.Value:
        node = ir.node(operator, list(inputs), attributes)
        (output,) = node.outputs
        output.name = f"observed/{len(self._graph)}"
        self._graph.append(node)
        return output

    def output(self, name: str, value: ir.Value) -> None:
        named = self.of("Identity", value)
        named.name, named.dtype = name, ir.DataType.DOUBLE
        self._graph.outputs.append(named)

    def distance(self, threshold: Threshold) -> ir.Value:
        """Return the exact distance of each element above a threshold."""
        limit = threshold.limit
        other = self._number(limit) if isinstance(limit, float) else self._double(self._values[limit])
        return self.of("Sub", self._double(self._values[threshold.value]), other)

    def _double(self, value: ir.Value) -> ir.Value:
        if value not in self._wide:
            self._wide[value] = self.of("Cast", value, to=ir.DataType.DOUBLE.value)
        return self._wide[value]

    def _number(self, number: float) -> ir.Value:
        name = f"observed/number {number!r}"
        if name not in self._values:
            value = ir.Value(name=name, const_value=ir.tensor(np.asarray(number, np.float64), name=name))
            self._graph.register_initializer(value)
            self._values[name] = value
        return self._values[name]
