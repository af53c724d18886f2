"""Cases that reach both sides of each threshold of the graph under test, if inputs can do so.

The sweep draws values of ordinary magnitude. It misses a graph that is wrong above 1e4, or on one token of 30,000, but
the nodes of the graph show the thresholds.

1. For a threshold on an input, cases hold the threshold itself, the adjacent numbers, and numbers on both sides.
2. To find the integers that a comparison or a table tells apart, the nodes before it run on all integers of the range.
3. For a threshold on a computed value, the cases of the sweep may reach both sides. If not, the graph runs on inputs
   that are larger, smaller, of one sign, peaked or directed, until a value arrives on the other side.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all, is_floating
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.core.words import size_label
from ffn_export.fusion import constants
from ffn_export.fusion.views import is_one_of
from ffn_export.fusion_check.limits import OutOfTimeError
from ffn_export.fusion_check.running import RefusedError, Runtimes, runtimes
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.case import Case
from ffn_export.parity.cases.extreme_values import THRESHOLD, TIES
from ffn_export.parity.cases.sizes.work import Work
from ffn_export.parity.cases.thresholds.arrivals import Met, Observer, distances, observer, wanted
from ffn_export.parity.cases.thresholds.beyond import is_open
from ffn_export.parity.cases.thresholds.directions import along, around, directed, peaks, scaled
from ffn_export.parity.cases.thresholds.every import may_hold, reader
from ffn_export.parity.cases.thresholds.find import Threshold, ends, find
from ffn_export.parity.cases.thresholds.flat import flat
from ffn_export.parity.cases.thresholds.integers import IntegersOf
from ffn_export.parity.cases.thresholds.longer import longer
from ffn_export.parity.cases.thresholds.ties import tied, with_ties
from ffn_export.parity.reference.references import Reference

_MOST_OBSERVED = 24
_MOST_PLACES = 512  # largest product of the symbolic axes of an observed case
_MOST_FOUND = 8  # cases found by search
_TRIES_OF_KINKS = 28  # candidates of the search with inputs up to a million times as large
_MOST_GROUPS = 6
_OTHER_DRAWS = 6
_AFFORDABLE = 2_000_000_000  # work of a longer case, if no case of the sweep has more
_MOST_OBSERVING = 2_000_000_000  # work of observing a longer input
_ROWS = 16  # draws that a direction is learned from
_NEAR = 30.0  # largest ratio of the limits in one case
_KEEP_NUMBERS = ("Abs", "Cast", "Flatten", "Identity", "Neg", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_NOT_FINITE = ("nan", "infinite")


@dataclass(frozen=True)
class Aimed:
    """Cases for the thresholds of a graph.

    Attributes:
        cases: Cases in addition to the sweep.
        notes: Thresholds with a side that was not reached.
    """

    cases: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()


def aimed(
    model: ir.Model,
    reference: Reference,
    cases: Sequence[Case],
    threads: int,
    seed: int = 0,
    asked: Sequence[Mapping[str, int]] = (),
) -> Aimed:
    """Return cases that reach the thresholds of a graph.

    Args:
        model: The graph under test.
        reference: Reference, which must accept the inputs of each case.
        cases: Cases of the sweep. If all hold arrays of the user, nothing is drawn.
        threads: Number of threads.
        seed: Seed of the drawn inputs.
        asked: Sizes beside those of the first case at which the thresholds of inputs are tried.
    """
    drawn = next((case for case in cases if case.given is None and case.values == "normal"), None)
    if drawn is None:
        return Aimed()
    flattened = flat(model)
    # ONNX Runtime removes casts of a reference that computes in half precision: values beyond its range tell nothing.
    beyond = {end for half in reference.computed_in.values() for end in ends(ir.DataType[half.upper()])}
    thresholds = [each for each in find(flattened) if each.limit not in beyond]
    readers = {spec.name: reader(flattened, spec.name) for spec in reference.inputs if may_hold(spec)}
    is_read = any(readers.values()) or any(map(is_open, reference.inputs)) or tied(flattened, reference.inputs)
    if not thresholds and not is_read:
        return Aimed()
    with runtimes(threads) as running:
        work = Work.of(model)
        affordable = max(_AFFORDABLE, *(work.of_case(reference.inputs, case.sizes) for case in cases))
        aim = _Aim(flattened, thresholds, reference, drawn, running, seed, affordable)
        return aim.at(_observed(cases), asked, {name: node for name, node in readers.items() if node is not None})


def _observed(cases: Sequence[Case]) -> list[Case]:
    """Return the first small cases with finite numbers."""
    few = (c for c in cases if c.given is None and math.prod(c.sizes.values()) <= _MOST_PLACES)
    finite = [case for case in few if 0 not in case.sizes.values() and not case.values.startswith(_NOT_FINITE)]
    return finite[:_MOST_OBSERVED]


@dataclass(frozen=True)
class _Aim:
    model: ir.Model
    thresholds: Sequence[Threshold]
    reference: Reference
    base: Case
    runtimes: Runtimes
    seed: int
    affordable: int

    @property
    def specs(self) -> Sequence[TensorSpec]:
        return self.reference.inputs

    @property
    def _floating(self) -> frozenset[str]:
        return frozenset(spec.name for spec in self.specs if spec.is_floating)

    def at(self, known: Sequence[Case], asked: Sequence[Mapping[str, int]], readers: Mapping[str, ir.Node]) -> Aimed:
        feeds = self.base.feeds(self.specs)
        integers = IntegersOf(
            self.model, self.thresholds, self.specs, self.base.sizes, self.runtimes, self.seed, self.affordable
        )
        made = [*(self._case(*each) for each in integers.beside(feeds)), *self._of_inputs(feeds)]
        everything, notes = integers.every(readers)
        unobserved = [self._case(*each) for each in everything]
        made += [self._case(*each) for each in integers.beyond(self._takes) if self._is_taken(each[1])]
        unobserved += self._of_ties(feeds)
        for sizes in asked:
            others = draw_all(self.specs, sizes, self.seed)
            unobserved += [*self._of_inputs(others), *(self._case(*each) for each in integers.in_rows(sizes))]
        if not self.thresholds:
            return Aimed(_named([*made, *unobserved]), notes)
        try:
            with observer(self.model, self.thresholds, self.runtimes) as watching:
                met = frozenset[object]().union(*(watching.met(each.feeds(self.specs)) for each in (*known, *made)))
                missing = frozenset().union(*map(wanted, self.thresholds)) - met
                found, missing = self._search(watching, feeds, missing)
            longer, missing = self._grown(missing)
        except (RefusedError, OutOfTimeError) as refused:
            notes = (*notes, f"the thresholds of the graph could not be observed: {refused}")
            return Aimed(_named([*made, *unobserved]), notes)
        notes = (*notes, *_notes(missing, self._floating))
        return Aimed(_named([*made, *unobserved, *found, *longer]), notes)

    def _case(self, what: str, feeds: Mapping[str, Array]) -> Case:
        sizes = self._sizes(feeds)
        return Case(f"{size_label(sizes)} {THRESHOLD} {what}", sizes, THRESHOLD, self.seed, dict(feeds))

    def _sizes(self, feeds: Mapping[str, Array]) -> dict[str, int]:
        return {dim.name: feeds[spec.name].shape[axis] for spec in self.specs for axis, dim in spec.symbolic.items()}

    def _of_inputs(self, feeds: Mapping[str, Array]) -> Iterator[Case]:
        """Yield cases with the numbers that floating-point inputs are compared with directly."""
        for spec in self.specs:
            if not spec.is_floating or not feeds[spec.name].size:
                continue
            limits = sorted({abs(limit) for each in self.thresholds for limit in self._limits_of(each, spec.name)})
            for group in _groups(limits)[:_MOST_GROUPS]:
                array = around(group, feeds[spec.name], self.seed)
                if self._is_taken(changed := {**feeds, spec.name: array}):
                    yield self._case(f"{group[0]:g}", changed)

    def _of_ties(self, feeds: Mapping[str, Array]) -> Iterator[Case]:
        """Yield a case with numbers that equal what they are compared with."""
        if limits := tied(self.model, self.specs):
            changed = with_ties(feeds, limits, self.seed)
            if self._is_taken(changed):
                sizes = self._sizes(changed)
                yield Case(f"{size_label(sizes)} {TIES}", sizes, TIES, self.seed, changed)

    def _limits_of(self, threshold: Threshold, name: str) -> tuple[float, ...]:
        """Return the numbers that an input is compared with, if it arrives at the threshold unchanged."""
        if threshold.inputs != {name} or threshold.is_kink or not self._is_input(threshold.value):
            return ()
        if isinstance(threshold.limit, float):
            return (threshold.limit,)
        array = constants.evaluate(self._values.get(threshold.limit))
        return () if array is None or array.size > _MOST_GROUPS else tuple(map(float, array.reshape(-1)))

    @cached_property
    def _values(self) -> dict[str, ir.Value]:
        values = [*self.model.graph.initializers.values(), *(v for node in self.model.graph for v in node.outputs)]
        return {str(value.name): value for value in values}

    def _is_input(self, name: str) -> bool:
        value = self._values.get(name)
        while value is not None and (node := value.producer()) is not None:
            if not is_one_of(node, *_KEEP_NUMBERS):
                return False
            value = node.inputs[0]
        return True

    def _search(self, watching: Observer, feeds: Mapping[str, Array], missing: Met) -> tuple[list[Case], Met]:
        """Return cases in which values arrive on missing sides, and the sides that are still missing."""
        found: list[Case] = []
        draws = (draw_all(self.specs, self.base.sizes, self.seed + draw) for draw in range(1, _OTHER_DRAWS + 1))
        has_floats = any(map(is_floating, feeds.values()))
        first: Iterator[Mapping[str, Array]] = chain(scaled(feeds), peaks(feeds)) if has_floats else draws
        tried = chain(first, self._directed(feeds, lambda: missing))
        for number, candidate in enumerate(tried if missing else ()):
            if number == _TRIES_OF_KINKS:
                missing = frozenset((each, side) for each, side in missing if not each.is_kink)
            new = watching.met(candidate) & missing
            if new and self._is_taken(candidate):
                found.append(self._case(_label(new), candidate))
                missing -= new
            if not missing or len(found) == _MOST_FOUND:
                break
        return found, missing

    def _grown(self, missing: Met) -> tuple[list[Case], Met]:
        """Return cases of longer inputs on which sums over tokens pass their thresholds, and what is still missing."""
        found: list[Case] = []
        for threshold in sorted({each for each, _ in missing if each.sums and not each.is_kink}, key=str)[:_MOST_FOUND]:
            with observer(self.model, [threshold], self.runtimes) as watching:
                costs = ((Work.of(self.model), self.affordable), (watching.work, _MOST_OBSERVING))
                for candidate in longer(self.specs, self.base.sizes, self.seed, costs, threshold.limit):
                    new = watching.met(candidate) & missing
                    if new and self._is_taken(candidate):
                        found.append(self._case(_label(new), candidate))
                        missing -= new
                        break
        return found, missing

    def _directed(self, feeds: Mapping[str, Array], missing: Callable[[], Met]) -> Iterator[Mapping[str, Array]]:
        """Yield rows in the direction that most changes a value computed from each row alone, as behind a norm."""
        for threshold, side in sorted(missing(), key=str):
            for name in threshold.inputs if not threshold.is_kink else ():
                if (threshold, side) not in missing() or not is_floating(feeds[name]) or not feeds[name].ndim:
                    continue
                rows, far = self._learned(threshold, name)
                if len(rows):
                    for direction in along(rows, far, above=side == "above"):
                        yield from directed(feeds, name, direction)

    def _learned(self, threshold: Threshold, name: str) -> tuple[Array, Array]:
        """Return normal rows of an input, and the distance of each row's computed values from a threshold."""
        rows, far = [], []
        try:
            with distances(self.model, [threshold], self.runtimes) as run:
                for draw in range(_ROWS):
                    drawn = draw_all(self.specs, self.base.sizes, self.seed + draw)
                    (distance,) = run(drawn).values()
                    if distance.shape[:-1] != drawn[name].shape[:-1]:
                        break
                    rows.append(drawn[name].reshape(-1, drawn[name].shape[-1]).astype(np.float64))
                    far.append(distance.reshape(-1, distance.shape[-1]))
        except RefusedError:
            return np.empty((0, 1)), np.empty((0, 1))
        return (np.concatenate(rows), np.concatenate(far)) if rows else (np.empty((0, 1)), np.empty((0, 1)))

    def _takes(self, spec: TensorSpec, number: int) -> bool:
        feeds = masks.all_seen(self.specs, self.base.feeds(self.specs))
        return self._is_taken({**feeds, spec.name: np.full_like(feeds[spec.name], number)})

    def _is_taken(self, feeds: Mapping[str, Array]) -> bool:
        """Whether the reference accepts inputs, and its outputs are finite wherever they are on ordinary inputs.

        If PyTorch overflows, a runtime may overflow in another way.
        """
        try:
            outputs = self.reference.baseline(feeds)
        except Exception as error:  # noqa: BLE001 - a user's module may raise anything on inputs that it refuses
            expose_own(error)
            return False
        if self._sizes(feeds) != dict(self.base.sizes):
            return all(bool(_is_finite(array).all()) for array in outputs.values() if is_floating(array))
        return all(bool((_is_finite(outputs[name]) | ~finite).all()) for name, finite in self._finite.items())

    @cached_property
    def _finite(self) -> dict[str, Array]:
        outputs = self.reference.baseline(self.base.feeds(self.specs))
        return {name: _is_finite(array) for name, array in outputs.items() if is_floating(array)}


def _named(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases with unique names, numbering those that share one."""
    names = Counter[str]()
    result = []
    for case in cases:
        names[case.name] += 1
        number = names[case.name]
        result.append(case if number == 1 else replace(case, name=f"{case.name} ({number})"))
    return tuple(result)


def _is_finite(array: Array) -> Array:
    finite: Array = np.isfinite(array.astype(np.float64))
    return finite


def _groups(limits: Sequence[float]) -> list[list[float]]:
    """Group sorted limits of similar magnitude, since errors at small ones do not show beside large ones."""
    groups: list[list[float]] = []
    for limit in limits:
        if groups and limit <= _NEAR * groups[-1][0]:
            groups[-1].append(limit)
        else:
            groups.append([limit])
    return groups


def _label(met: Met) -> str:
    first = min((threshold for threshold, _ in met), key=str)
    return f"{first.limit:g}" if isinstance(first.limit, float) else f"of {first.value}"


def _notes(missing: Met, floating: frozenset[str]) -> tuple[str, ...]:
    """Return a note on explicit thresholds that floating-point inputs or several integers did not reach.

    Of a single integer, all were tried.
    """
    left = sorted({(each.node, side) for each, side in missing if _is_told(each, side, floating)})
    if not left:
        return ()
    named = "; ".join(f"{node}: nothing arrived {_WORDS[side]}" for node, side in left[:3])
    more = f"; and {len(left) - 3} more" if len(left) > 3 else ""
    return (f"thresholds that no input tried has reached, and behind which nothing is verified: {named}{more}",)


def _is_told(threshold: Threshold, side: str, floating: frozenset[str]) -> bool:
    if threshold.is_kink or threshold.inputs & floating:
        return not threshold.is_kink
    # Integers are rarely negative: graphs that wrap negative indices around ask whether they are.
    limit = threshold.limit
    return threshold.of_several and isinstance(limit, float) and (side != "below" or limit > 0)


_WORDS = {"below": "below its limit", "above": "above its limit", "equal": "at its limit", "other": "beside its limit"}
