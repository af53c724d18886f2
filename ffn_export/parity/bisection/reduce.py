"""Extract the smallest part of a model that still fails, with its inputs and expected output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.core.tapped_graphs import SUFFIX, part
from ffn_export.core.types import Array
from ffn_export.fusion_check.running import RefusedError
from ffn_export.parity.bisection.cuts import Cuts
from ffn_export.parity.bisection.graph import Graph
from ffn_export.parity.bisection.judged_errors import own_error, truth_of
from ffn_export.parity.bisection.pairs import Pairs
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.session_options import SessionSettings


@dataclass(frozen=True)
class Reduced:
    """A part of a model that fails on its own.

    Attributes:
        model: Part of the suspect.
        reference: Corresponding part of the reference, with the same inputs and output.
        inputs: Input -> array, in the order of both graphs.
        expected: Output -> value of the reference in float64, rounded to its working dtype.
    """

    model: ir.Model
    reference: ir.Model
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]


@dataclass(frozen=True)
class Reducer:
    """Extracts parts of a suspect, on one case.

    Attributes:
        cuts: Both graphs, cut at all pairs.
        tolerances: Allowed errors.
        settings: Session options that a part must fail with.
    """

    cuts: Cuts
    tolerances: Tolerances
    settings: SessionSettings

    def smallest(self, value: str) -> Reduced | None:
        """Return the smallest part that computes a value and fails, or None if not even the whole path to it fails.

        The search starts with the nodes between the value and the nearest cuts. It removes cuts backwards until the
        part fails: first in doubling steps, then by bisection between the last two.
        """
        before = self._cuts_before(value)
        low, high = -1, 0
        while (found := self._without(value, before[:high])) is None:
            if high >= len(before):
                return None
            low, high = high, min(max(2 * high, 1), len(before))
        while high - low > 1:
            middle = (low + high) // 2
            smaller = self._without(value, before[:middle])
            if smaller is None:
                low = middle
            else:
                high, found = middle, smaller
        return found

    def _cuts_before(self, value: str) -> list[str]:
        """Return the paired values that a value depends on, the nearest first."""
        graph = self.cuts.suspect.graph
        nodes = set(graph.between(value, ()).nodes)
        names = (name for name in graph.values if name != value and name in self.cuts.pairs.values)
        return [name for name in names if graph.values[name].producer() in nodes][::-1]

    def _without(self, value: str, dropped: list[str]) -> Reduced | None:
        """Return the part that computes a value without the dropped cuts, if it fails."""
        pairs = Pairs(self.cuts.pairs.inputs)
        for name, counterpart in self.cuts.pairs.values.items():
            if name not in dropped:
                pairs.add(name, counterpart)
        counterpart = pairs.values[value]
        cuts = replace(self.cuts, pairs=pairs)
        recorded = cuts.recorded([value])
        try:
            baseline = cuts.runs.part(cuts.reference, recorded, [counterpart])[counterpart]
        except RefusedError:
            return None
        oracle = cuts.runs.oracle(cuts.reference, recorded, [counterpart])
        truth = (None if oracle is None else oracle.run()) or {counterpart: truth_of(baseline)}
        expected = truth[counterpart].astype(baseline.dtype)
        reduced = _taken_out(cuts, value, cuts.given(recorded), expected)
        try:
            gave = cuts.runs.alone(reduced.model, cuts.suspect.runtime, reduced.inputs, self.settings)
        except RefusedError:
            return reduced
        return reduced if own_error(value, gave[value], truth[counterpart], baseline, self.tolerances).over else None


def _taken_out(cuts: Cuts, value: str, given: Mapping[str, Array], expected: Array) -> Reduced:
    pairs, counterpart = cuts.pairs, cuts.pairs.values[value]
    names = {theirs: mine for mine, theirs in (*pairs.inputs.items(), *pairs.values.items())}
    read = [str(v.name) for v in cuts.part(value).given]
    read += [names[str(v.name)] for v in cuts.instead_of(counterpart).given if v.name in names]
    inputs = {name: given[name] for name in dict.fromkeys(read)}
    model = _part(cuts.suspect.graph, inputs, value, value, expected)
    theirs = {pairs.counterpart(name) or name: array for name, array in inputs.items()}
    other = _part(cuts.reference.graph, theirs, counterpart, value, expected, names)
    return Reduced(model, other, inputs, {value: expected})


def _part(
    graph: Graph,
    given: Mapping[str, Array],
    wanted: str,
    output: str,
    expected: Array,
    names: Mapping[str, str] | None = None,
) -> ir.Model:
    """Return the part that computes a value, with every given value as input, even if the part does not read it."""
    types = {name: (ir.DataType.from_numpy(array.dtype), array.shape) for name, array in given.items()}
    model = part(graph.model, types, [wanted])
    result = model.graph.outputs[0]
    there = {str(value.name): value for value in model.graph.inputs}
    model.graph.inputs.clear()
    for name, (dtype, shape) in types.items():
        model.graph.inputs.append(there.get(name) or ir.val(name, dtype, ir.Shape(shape)))
    if names is not None:
        _rename(model, names)
    result.name = output
    result.shape = ir.Shape(expected.shape)
    if result.dtype is None:
        result.dtype = ir.DataType.from_numpy(expected.dtype)
    return model


def _rename(model: ir.Model, names: Mapping[str, str]) -> None:
    """Rename the inputs, and all other values so that they do not collide."""
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if value.name:
                value.name = f"reference_{value.name.removesuffix(SUFFIX)}"
    for value in [v for v in model.graph.initializers.values() if v.name in names.values()]:
        value.name = f"reference_{value.name}"
    for value in model.graph.inputs:
        value.name = names.get(str(value.name), value.name)
