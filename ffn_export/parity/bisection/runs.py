"""Run whole graphs and their parts on one set of inputs, within a memory bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.strict import expose_own
from ffn_export.core.tapped_graphs import SUFFIX, observed, part
from ffn_export.core.types import Array
from ffn_export.fusion_check.inputs import Sizes, size_of
from ffn_export.fusion_check.running import EVALUATOR, RefusedError, Runtimes
from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.runtimes.base import Runtime
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings

# Memory bound of the observed values of one run, and of the weights of its parts, which the oracle holds in float64.
MOST_BYTES = 2**28
_UNKNOWN_AXIS = 16
_UNKNOWN_BYTES = 2**16


@dataclass(frozen=True)
class Side:
    """A graph, its runtime and its inputs."""

    graph: Graph
    runtime: Runtime
    feeds: Mapping[str, Array]


class Runs:
    """Runs models for one case.

    Args:
        runtimes: Runtimes that load the models.
        sizes: Sizes of the symbolic axes, which determine the memory of a value.
        most_bytes: Memory bound of the values that one run returns.
    """

    def __init__(self, runtimes: Runtimes, sizes: Sizes, most_bytes: int = MOST_BYTES) -> None:
        self._runtimes = runtimes
        self._sizes = sizes
        self.most_bytes = most_bytes

    def chunks(self, graph: Graph, names: Iterable[str]) -> Iterator[list[str]]:
        """Split values of a graph, in the given order, into chunks that fit in memory."""
        return self.split(names, lambda name: (self.byte_size(graph.values[name]), 0))

    def split(self, names: Iterable[str], sizes: Callable[[str], tuple[int, int]]) -> Iterator[list[str]]:
        """Split values into chunks, of whose bytes of values and of weights each fits in memory."""
        chunk, values, weights = list[str](), 0, 0
        for name in names:
            value, weight = sizes(name)
            if chunk and max(values + value, weights + weight) > self.most_bytes:
                yield chunk
                chunk, values, weights = [], 0, 0
            chunk.append(name)
            values, weights = values + value, weights + weight
        if chunk:
            yield chunk

    def byte_size(self, value: ir.Value) -> int:
        """Estimate the memory of a value, whose axes are sizes or expressions of the inputs' symbolic dimensions."""
        if value.shape is None:
            return _UNKNOWN_BYTES
        itemsize = 8 if value.dtype is None else max(value.dtype.bitwidth // 8, 1)
        return int(np.prod([self._size(dim) for dim in value.shape], dtype=np.float64)) * itemsize

    def whole(self, side: Side, names: Sequence[str], settings: SessionSettings = NO_OPTIMIZER) -> dict[str, Array]:
        """Run a whole graph and return some of its values.

        Raises:
            RefusedError: If the runtime does not load or run it.
        """
        with self._runtimes.loaded(observed(side.graph.model, names), side.runtime, settings) as run:
            results = run(side.feeds)
        return {name: results[name] for name in names if name in results}

    def part(self, side: Side, given: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the part that computes some values, cut at the given ones.

        Raises:
            RefusedError: If the runtime does not load or run it.
        """
        cut = self._cut(side, given, wanted)
        inputs = [str(value.name) for value in cut.graph.inputs]
        names = [name for name in inputs if name in given or name not in cut.graph.initializers]  # has a default
        with self._runtimes.loaded(cut, side.runtime) as run:
            return _own_names(run({name: given[name] for name in names}))

    def alone(
        self, model: ir.Model, runtime: Runtime, feeds: Mapping[str, Array], settings: SessionSettings
    ) -> dict[str, Array]:
        """Run a model that belongs to no side.

        Raises:
            RefusedError: If the runtime does not load or run it.
        """
        with self._runtimes.loaded(model.clone(), runtime, settings) as run:
            return run(feeds)

    def parts(self, side: Side, given: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array | str]:
        """Run parts together, or in halves if the runtime refuses. The error of a refused part replaces its array."""
        try:
            return dict(self.part(side, given, wanted))
        except RefusedError as refused:
            if len(wanted) == 1:
                return {wanted[0]: str(refused)}
        half = len(wanted) // 2
        return self.parts(side, given, wanted[:half]) | self.parts(side, given, wanted[half:])

    def oracle(self, side: Side, given: Mapping[str, Array], wanted: Sequence[str]) -> PartOracle | None:
        """Return the float64 evaluation of a part, or None if the evaluator does not load it."""
        cut = self._cut(side, given, wanted)
        names = [str(value.name) for value in cut.graph.inputs]
        path = self._runtimes.write(cut)
        try:
            return PartOracle(GraphOracle(path), {name: given[name] for name in names})
        except Exception as error:  # noqa: BLE001 - the evaluator raises whatever it meets; the working dtype is the truth then
            expose_own(error)
            return None
        finally:
            path.unlink()

    def _cut(self, side: Side, given: Mapping[str, Array], wanted: Sequence[str]) -> ir.Model:
        types = {name: (ir.DataType.from_numpy(array.dtype), array.shape) for name, array in given.items()}
        return part(side.graph.model, types, wanted)

    def _size(self, dim: int | ir.SymbolicDim) -> int:
        if isinstance(dim, int):
            return dim
        try:
            return size_of(str(dim.value), self._sizes)
        except (ValueError, SyntaxError, KeyError, ZeroDivisionError):
            return _UNKNOWN_AXIS


@dataclass(frozen=True)
class PartOracle:
    """A part in float64, and the numbers that it is given."""

    graph: GraphOracle
    given: Mapping[str, Array]

    def run(self) -> Mapping[str, Array] | None:
        """Return value -> array in float64, or None if the evaluator fails."""
        try:
            return self.oracle(self.given)
        except Exception as error:  # noqa: BLE001 - the evaluator raises whatever it meets; the working dtype is the truth then
            expose_own(error)
            return None

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array]:
        """Return value -> array for given values in float64, with unchanged weights."""
        del rounding_seed
        with np.errstate(all="ignore"):
            return _own_names(dict(zip(self.graph.outputs, self.graph.run(feeds), strict=True)))


def reference_side(runs: Runs, graph: Graph, feeds: Mapping[str, Array], first: Runtime) -> Side:
    """Return the reference with its runtime: the first choice, or ONNX's evaluator if that cannot run it.

    Raises:
        RefusedError: If neither runs it on these inputs.
    """
    side = Side(graph, first, feeds)
    try:
        runs.whole(side, [])
    except RefusedError as refused:
        side = Side(graph, EVALUATOR, feeds)
        try:
            runs.whole(side, [])
        except RefusedError:
            raise refused from None
    return side


def _own_names(results: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removesuffix(SUFFIX): array for name, array in results.items()}
