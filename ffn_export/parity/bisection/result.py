"""The result of a bisection. Plain data: it can be stored and read again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown

Verdict = Literal["node", "initializer", "session", "accumulated", "outside", "nothing"]
Alignment = Literal["names", "numbers"]


@dataclass(frozen=True)
class Error:
    """The judged error of a value against the reference.

    Attributes:
        ulps: Largest absolute difference, in ULP of the dtype at the value's scale.
        allowed: Largest allowed difference in ULP, if no tolerance is declared.
        factor: Error as a multiple of its bound or declared tolerance; above 1 it is too large.
        baseline_ulps: Error of the reference in its working dtype; None if it was not measured.
        max_abs: Largest absolute difference.
        relative_l2: L2 norm of the difference over that of the reference's value.
        scale: Largest magnitude of the reference's value.
        index: Index of the largest difference, or of the first integer that differs.
        unexpected: Number of elements that are NaN or infinite in only one of the two.
        problem: Reason why the value cannot be compared: another shape or dtype, or an error of the runtime.
    """

    ulps: float = 0.0
    allowed: float = math.inf
    factor: float = 0.0
    baseline_ulps: float | None = None
    max_abs: float = 0.0
    relative_l2: float = 0.0
    scale: float = 0.0
    index: tuple[int, ...] = ()
    unexpected: int = 0
    problem: str | None = None

    @property
    def over(self) -> bool:
        """Whether the error exceeds its bound; NaN does."""
        return self.problem is not None or self.unexpected > 0 or not self.factor <= 1

    @property
    def words(self) -> str:
        """The problem, or the size of the error, in a few words."""
        if self.problem is not None:
            return self.problem
        if self.unexpected:
            return f"{self.unexpected} elements are NaN or infinite in one of the two only"
        of = f" of {self.allowed:.3g} allowed" if math.isfinite(self.allowed) else ""
        where = f" at {list(self.index)}" if self.over else ""
        return f"{self.ulps:.3g} units in the last place{of}{where}"


@dataclass(frozen=True)
class NodeFacts:
    """A node, as reports show it.

    Attributes:
        name: Name of the node, from the exporter or from this tool.
        op_type: Operator, with the domain unless it is the standard one.
        scope: Path of the PyTorch module that the node comes from; empty for the root module or if unknown.
        inputs: Names of the inputs; empty for an omitted input.
        outputs: Names of the outputs.
    """

    name: str
    op_type: str
    scope: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Given:
    """A value that the part reads.

    Attributes:
        value: Name in the suspect.
        counterpart: Name in the reference.
        inherited: Error of the value in the whole run, which the part inherits; None if the whole graph does not run.
    """

    value: str
    counterpart: str
    inherited: Error | None = None


@dataclass(frozen=True)
class Part:
    """The nodes that compute one value: a single node, or a rewritten site.

    Attributes:
        value: Name of the value in the suspect.
        counterpart: Name of the value in the reference.
        node: Node that names the part.
        own: Error of the part when it runs alone on the reference's numbers.
        whole: Error of the value in the whole run, inherited and own; None if the whole graph does not run.
        nodes: All nodes of the suspect that compute the value from ``given``.
        instead_of: Corresponding nodes of the reference.
        given: Values that the part reads.
        contrast: Differences between the nodes of both, one line each.
    """

    value: str
    counterpart: str
    node: NodeFacts
    own: Error
    whole: Error | None = None
    nodes: tuple[NodeFacts, ...] = ()
    instead_of: tuple[NodeFacts, ...] = ()
    given: tuple[Given, ...] = ()
    contrast: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bisection(PlainData, Shown):
    """Where a model first differs from its reference.

    Attributes:
        model: Name of the bisected file.
        against: Name of the reference.
        runtime: Name of the runtime.
        case: Name of the case.
        sizes: Size of each symbolic dimension.
        verdict: One of

            - ``node``: a part alone exceeds its bound.
            - ``initializer``: every part is right on this case, and a weight differs from the reference's.
            - ``session``: every part is right, and so is the graph without the runtime's optimiser.
            - ``accumulated``: every part is right, and the whole graph is wrong with any session options.
            - ``outside``: the parts and the whole graph are right, and the failure is elsewhere, such as a fixed axis.
            - ``nothing``: nothing differs.
        reason: Verdict in one line.
        alignment: Method that paired the values.
        compared: Number of paired values.
        unpaired: Number of values of the model without a counterpart; they belong to the part that reads them.
        part: First guilty part, or None.
        further: Other parts over their bounds, in topological order.
        reduced_nodes: Number of nodes of the smallest failing part; None if not requested or if none fails.

    Examples:
        >>> found = fx.bisect("model.onnx", against="d2l-ffn", runtime="ort-cpu")
        >>> found.runtime
        'ort-cpu'
    """

    model: str
    against: str
    runtime: str
    case: str
    sizes: Mapping[str, int]
    verdict: Verdict
    reason: str
    alignment: Alignment = "names"
    compared: int = 0
    unpaired: int = 0
    part: Part | None = None
    further: tuple[Part, ...] = ()
    reduced_nodes: int | None = None

    @property
    def differs(self) -> bool:
        """Whether the verdict is other than ``nothing``."""
        return self.verdict != "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**super().to_dict(), "differs": self.differs}
