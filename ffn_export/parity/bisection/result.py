"""What a bisection found. Plain data: it can be stored and read again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["node", "initializer", "session", "accumulated", "outside", "nothing"]
Alignment = Literal["names", "numbers"]


@dataclass(frozen=True)
class Error:
    """How far a value is from the reference's, judged.

    Attributes:
        ulps: Largest absolute difference in units of the last place of the dtype at the value's scale.
        allowed: The largest that passes, where nothing else is declared.
        factor: The error as a multiple of what is allowed, or declared: above 1 it is over its budget.
        baseline_ulps: The reference's own error in its working dtype; None where it was not asked for.
        max_abs: Largest absolute difference.
        relative_l2: L2 norm of the difference over that of the reference's value.
        scale: Largest magnitude of the reference's value.
        index: Where the difference is largest; where integers first differ.
        unexpected: Elements that are NaN or infinite in one of the two only.
        problem: What keeps it from being compared at all: another shape or dtype, or an error of the runtime.
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
        """Whether it is over its budget; NaN is."""
        return self.problem is not None or self.unexpected > 0 or not self.factor <= 1

    @property
    def words(self) -> str:
        """What is wrong in a few words, or how large the error is."""
        if self.problem is not None:
            return self.problem
        if self.unexpected:
            return f"{self.unexpected} elements are NaN or infinite in one of the two only"
        of = f" of {self.allowed:.3g} allowed" if math.isfinite(self.allowed) else ""
        where = f" at {list(self.index)}" if self.over else ""
        return f"{self.ulps:.3g} units in the last place{of}{where}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Error:
        """Read plain data; JSON has no NaN, so one may stand there as a string."""
        known = {**data, "index": tuple(data["index"])}
        for name in ("ulps", "allowed", "factor", "max_abs", "relative_l2", "scale"):
            known[name] = float(data[name])
        if data["baseline_ulps"] is not None:
            known["baseline_ulps"] = float(data["baseline_ulps"])
        return cls(**known)


@dataclass(frozen=True)
class NodeFacts:
    """A node, as reports show it.

    Attributes:
        name: Its name; the exporter's or the tool's own.
        op_type: Its operator, with the domain where that is not the standard one.
        scope: Path of the PyTorch module that it comes from; empty for the root module and where none is noted.
        inputs: Names of what it reads; empty for an input that is left out.
        outputs: Names of what it computes.
    """

    name: str
    op_type: str
    scope: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NodeFacts:
        """Read plain data."""
        return cls(**{**data, "inputs": tuple(data["inputs"]), "outputs": tuple(data["outputs"])})


@dataclass(frozen=True)
class Given:
    """A value that the part reads.

    Attributes:
        value: Its name in the suspect.
        counterpart: Its name in the reference.
        inherited: Error of the whole run there, which the part inherits; None where the whole graph does not run.
    """

    value: str
    counterpart: str
    inherited: Error | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Given:
        """Read plain data."""
        return cls(data["value"], data["counterpart"], _error(data["inherited"]))


@dataclass(frozen=True)
class Part:
    """What computes one value: a node, or a site that was rewritten.

    Attributes:
        value: The value, by its name in the suspect.
        counterpart: By its name in the reference.
        node: The node that is named for it.
        own: Its error when it is run alone on the reference's numbers.
        whole: Error of the whole run at its value: what it inherited and its own; None where that does not run.
        nodes: All nodes of the suspect that compute the value from what is given.
        instead_of: Those of the reference.
        given: What they read.
        contrast: How the two differ as they are written, a line each.
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        """Read plain data."""
        own = _error(data["own"])
        assert own is not None
        return cls(
            value=data["value"],
            counterpart=data["counterpart"],
            node=NodeFacts.from_dict(data["node"]),
            own=own,
            whole=_error(data["whole"]),
            nodes=tuple(map(NodeFacts.from_dict, data["nodes"])),
            instead_of=tuple(map(NodeFacts.from_dict, data["instead_of"])),
            given=tuple(map(Given.from_dict, data["given"])),
            contrast=tuple(data["contrast"]),
        )


@dataclass(frozen=True)
class Bisection:
    """Where a model first differs from its reference.

    Attributes:
        model: What was bisected.
        against: What it was compared with.
        runtime: What ran it.
        case: Name of the case that it ran on.
        sizes: Size of each symbolic dimension.
        verdict: ``node``: a part is over its budget alone. ``initializer``: every part is right on this case, and
            a weight is not the reference's. ``session``: every part is right and the graph is, without the
            runtime's own optimiser. ``accumulated``: every part is right and the whole is not, whatever the
            session options. ``outside``: the parts and the whole are right, and what failed is none of them, such as
            an axis that is fixed. ``nothing``: nothing differs.
        reason: The verdict in one line.
        alignment: How values were paired.
        compared: Number of values that were.
        unpaired: Number of values of the model that have no counterpart; they belong to the part that reads them.
        part: The first part that is guilty, where one is.
        further: Others that are over their own budget, in the order of the data.
        reduced_nodes: Number of nodes of the smallest part that fails; None where none was asked for, or none does.
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
        """Whether anything was found."""
        return self.verdict != "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "differs": self.differs}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bisection:
        """Read what :meth:`to_dict` wrote."""
        known = {key: value for key, value in data.items() if key != "differs"}
        known["part"] = None if data["part"] is None else Part.from_dict(data["part"])
        known["further"] = tuple(map(Part.from_dict, data["further"]))
        return cls(**known)


def _error(data: Mapping[str, Any] | None) -> Error | None:
    return None if data is None else Error.from_dict(data)
