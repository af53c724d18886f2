"""Differences of two models, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown

WeightStatus = Literal["equal", "changed", "only in A", "only in B", "not compared"]
NodeStatus = Literal["changed", "only in A", "only in B"]
STATUSES: tuple[WeightStatus, ...] = ("equal", "changed", "only in A", "only in B", "not compared")


@dataclass(frozen=True)
class WeightPair:
    """An initializer of one model, and its counterpart in the other.

    Attributes:
        status: ``equal`` means bit for bit, under any name, transposed or not; ``changed`` means other content under
            the same name; ``not compared`` means missing data.
        a: Name in A; None if it is only in B.
        b: Name in B; None if it is only in A.
        type_a: Dtype and shape in A, such as ``float32[768,3072]``.
        type_b: Dtype and shape in B.
        transposed: Whether B holds it transposed.
        max_relative: Largest difference over the largest magnitude in A, if it changed in value and not in shape.
    """

    status: WeightStatus
    a: str | None = None
    b: str | None = None
    type_a: str | None = None
    type_b: str | None = None
    transposed: bool = False
    max_relative: float | None = None

    @property
    def renamed(self) -> bool:
        """Whether the two have different names."""
        return None not in (self.a, self.b) and self.a != self.b


@dataclass(frozen=True)
class Change:
    """A property of a node that differs.

    Attributes:
        what: ``operator``, the name of an attribute, ``input 0``, or ``function body``.
        a: Its value in A.
        b: Its value in B.
    """

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class NodeChange:
    """A node that differs, or that has no counterpart.

    Attributes:
        status: ``changed``, ``only in A`` or ``only in B``.
        operator: Operator in A, or in B if it is only there.
        a: Name in A; None if it is only in B.
        b: Name in B; None if it is only in A.
        changes: What differs, if it is in both.
    """

    status: NodeStatus
    operator: str
    a: str | None = None
    b: str | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Side:
    """One of the two models.

    Attributes:
        model: The file or bundle.
        inputs: Name, dtype and symbolic shape of each input.
        outputs: Name, dtype and symbolic shape of each output.
        opset_imports: Domain -> version.
        operators: Operator -> number of nodes.
        file_bytes: Size of the file and its external data.
        weights_bytes: Size of all initializers.
        note: Missing data of the model, in one line; None if it is complete.
        parity: The parity summary of a bundle's manifest.
        latency: The latency summary of a bundle's manifest.
    """

    model: str
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    opset_imports: Mapping[str, int]
    operators: Mapping[str, int]
    file_bytes: int
    weights_bytes: int
    note: str | None = None
    parity: Mapping[str, Any] | None = None
    latency: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Difference(PlainData, Shown):
    """A comparison of two models.

    Attributes:
        a: The first model.
        b: The second model.
        weights: Initializers with their counterparts.
        same_wiring: Whether both have the same nodes with the same attributes, connected in the same way;
            names and the order of nodes do not count.
        nodes: Nodes that differ and nodes without a counterpart, if the wiring differs.
    """

    a: Side
    b: Side
    weights: tuple[WeightPair, ...]
    same_wiring: bool
    nodes: tuple[NodeChange, ...] = ()

    def count(self, status: WeightStatus) -> int:
        """Return the number of weights with a status."""
        return sum(pair.status == status for pair in self.weights)

    @property
    def differs(self) -> bool:
        """Whether interface, opsets, wiring or weights differ; names and layout of weights do not count."""
        same_interface = (self.a.inputs, self.a.outputs, self.a.opset_imports) == (
            self.b.inputs,
            self.b.outputs,
            self.b.opset_imports,
        )
        return not (same_interface and self.same_wiring and self.count("equal") == len(self.weights))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the verdict."""
        return {**super().to_dict(), "differs": self.differs}
