"""Bisect one case: align both graphs, measure the parts, and name the fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ffn_export.parity.bisection import weights
from ffn_export.parity.bisection.align import by_numbers
from ffn_export.parity.bisection.contrast import contrast
from ffn_export.parity.bisection.cuts import Cuts
from ffn_export.parity.bisection.naming import facts, named
from ffn_export.parity.bisection.own_errors import Measured, own_errors
from ffn_export.parity.bisection.pairs import Pairs, by_name
from ffn_export.parity.bisection.result import Bisection, Given, NodeFacts, Part
from ffn_export.parity.bisection.runs import Runs, Side
from ffn_export.parity.bisection.whole_graph import WholeGraph
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.session_options import SessionSettings

_MOST_FURTHER = 20


@dataclass(frozen=True)
class Examined:
    """The result of one case.

    Attributes:
        bisection: Result of the bisection.
        cuts: Both graphs, cut at the pairs of the case.
        value: Value whose part fails, to be reduced; None if none fails.
        settings: Session options that the value fails with; None if it fails without the optimiser.
    """

    bisection: Bisection
    cuts: Cuts
    value: str | None = None
    settings: SessionSettings | None = None


@dataclass(frozen=True)
class Alignment:
    """Graphs that are cut at pairs of values, and the errors of these."""

    cuts: Cuts
    measured: tuple[Measured, ...]

    @property
    def right(self) -> int:
        """Number of values within their bounds."""
        return sum(not each.own.over for each in self.measured)

    @property
    def wrong(self) -> int:
        """Number of values over their bounds."""
        return len(self.measured) - self.right


@dataclass(frozen=True)
class Examination:
    """Examines a suspect on one case.

    Attributes:
        suspect: The graph under test.
        reference: The graph that the suspect should agree with.
        whole: File of the suspect, which runs as a whole.
        runs: Runs of both graphs and their parts.
        tolerances: Allowed errors.
        ill_conditioned: Whether bounds include the conditioning.
    """

    suspect: Side
    reference: Side
    whole: WholeGraph
    runs: Runs
    tolerances: Tolerances
    ill_conditioned: bool

    def examine(self, blank: Bisection, settings: SessionSettings) -> Examined:
        """Return the fault that this case shows.

        Args:
            blank: Result with the fields that are known in advance.
            settings: Session options that the model is verified with.

        Raises:
            RefusedError: If the reference does not run.
        """
        place, error = self.whole.worst(settings)
        aligned = self._aligned(fails=error.over)
        cuts = aligned.cuts
        blank = replace(
            blank,
            alignment=cuts.pairs.by,
            compared=len(aligned.measured),
            unpaired=len(self.suspect.graph.values) - len(cuts.pairs.values),
        )
        guilty = [each for each in aligned.measured if each.own.over]
        if guilty:
            first, *further = self._parts(guilty[: 1 + _MOST_FURTHER], aligned)
            reason = f"{_label(first.node)} is the first that is wrong alone: {first.own.words}"
            found = replace(blank, verdict="node", reason=reason, part=first, further=tuple(further))
            return Examined(found, cuts, first.value)
        output = str(self.suspect.graph.outputs[place].name)
        if error.over:
            level = self.whole.lowest_level(settings)
            if level is not None:
                options = level.words()
                reason = f"every node alone is right: the difference appears only with session options {options}"
                return Examined(replace(blank, verdict="session", reason=reason), cuts, output, level)
        changed = next(self._changed(aligned), None)
        if changed is not None:
            part, words = changed
            reason = f"every node is right on these inputs, but a weight of {_label(part.node)} is not: {words}"
            return Examined(replace(blank, verdict="initializer", reason=reason, part=part), cuts)
        if error.over:
            reason = (
                f"every node alone is right, with and without {self.suspect.runtime.name}'s optimiser; "
                f"output {output!r} of the whole graph is not: {error.words}"
            )
            return Examined(replace(blank, verdict="accumulated", reason=reason), cuts, output)
        return Examined(replace(blank, verdict="nothing", reason="nothing differs: every node is right alone"), cuts)

    def _aligned(self, *, fails: bool) -> Alignment:
        """Return the alignment by names, or that by numbers if names fit badly and numbers make more values right."""
        suspect, reference = self.suspect.graph, self.reference.graph
        names = self._measured(by_name(suspect, reference))
        share = len(names.cuts.pairs.values) / max(len(suspect.values), 1)
        most = max(1, len(names.measured) // 20) if fails else 0
        if share >= 0.5 and names.wrong <= most:
            return names
        numbers = self._measured(by_numbers(self.suspect, self.reference, self.runs))
        return numbers if numbers.right > names.right else names

    def _measured(self, pairs: Pairs) -> Alignment:
        cuts = Cuts(self.suspect, self.reference, pairs, self.runs)
        return Alignment(cuts, own_errors(cuts, self.tolerances, ill_conditioned=self.ill_conditioned))

    def _parts(self, guilty: Sequence[Measured], aligned: Alignment) -> Iterator[Part]:
        whole = {each.value: each.whole for each in aligned.measured}
        cuts = aligned.cuts
        for each in guilty:
            region, instead_of = cuts.part(each.value), cuts.instead_of(each.counterpart)
            read = [str(value.name) for value in region.given]
            yield Part(
                value=each.value,
                counterpart=each.counterpart,
                node=facts(named(region, instead_of), instead_of.nodes),
                own=each.own,
                whole=each.whole,
                nodes=tuple(facts(node) for node in region.nodes),
                instead_of=tuple(facts(node) for node in instead_of.nodes),
                given=tuple(Given(name, cuts.pairs.counterpart(name) or "", whole.get(name)) for name in read),
                contrast=contrast(region, instead_of, cuts.pairs),
            )

    def _changed(self, aligned: Alignment) -> Iterator[tuple[Part, str]]:
        """Yield the parts with a weight that should equal the reference's and does not."""
        for each in aligned.measured:
            region, instead_of = aligned.cuts.part(each.value), aligned.cuts.instead_of(each.counterpart)
            for found in weights.changed(region, instead_of):
                if weights.meant_to_be_equal(found):
                    reader = next(
                        n for n in region.nodes if any(v is not None and v.name == found.name for v in n.inputs)
                    )
                    part = next(self._parts([each], aligned))
                    yield replace(part, node=facts(reader, instead_of.nodes)), found.words


def _label(node: NodeFacts) -> str:
    scope = f" in {node.scope}" if node.scope else ""
    return f"{node.op_type} {node.name!r}{scope}"
