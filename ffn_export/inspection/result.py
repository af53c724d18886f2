"""Results of an inspection, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown
from ffn_export.fusion.report import SiteKind, SiteStatus


@dataclass(frozen=True)
class Weight:
    """An initializer.

    Attributes:
        name: Name of the initializer.
        dtype: Element type.
        shape: Shape.
        bytes: Size in bytes.
        part: Part of the model that reads it: a kind of site, ``embedding``, ``quantized product`` or ``other``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    part: str


@dataclass(frozen=True)
class Part:
    """Number and size of the initializers of one part, as in :class:`Weight`."""

    name: str
    initializers: int
    bytes: int


@dataclass(frozen=True)
class InspectedSite:
    """A site before and after fusing.

    Attributes:
        id: Identifier in the fusion report.
        kind: Kind of the site.
        name: Name of the node that ends it.
        status: Status after fusing.
        form_now: Operators in the model; None if fusing moved the borders of the site.
        form_after: Operators after fusing.
        rule: Rules that write the form after fusing.
        reason: Why the site is kept, refused or rolled back, or already has this form.
        bytes: Size of the initializers that it reads.
        evidence: The measured costs behind the reason, which belong to one machine.
    """

    id: str
    kind: SiteKind
    name: str
    status: SiteStatus
    form_now: str | None
    form_after: str
    rule: str | None
    reason: str | None
    bytes: int = 0
    evidence: str | None = None


@dataclass(frozen=True)
class Inspection(PlainData, Shown):
    """Everything that an inspection reads from a model.

    Attributes:
        model: The file.
        producer: Program that wrote it, with its version.
        ir_version: Version of the ONNX file format.
        opset_imports: Domain -> version.
        inputs: Name, dtype and symbolic shape of each input.
        outputs: Name, dtype and symbolic shape of each output.
        operators: Operator -> number of nodes.
        outside_standard: ``domain::Operator`` of each operator outside the standard domain.
        parts: Number and size of the initializers of each part.
        largest: The largest initializers.
        target: Target for which the sites were fused.
        sites: The sites.
        nodes: Number of nodes before and after fusing.
        notes: Missing data, functions of the model, and why sites are unknown.
    """

    model: str
    producer: str
    ir_version: int
    opset_imports: Mapping[str, int]
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    operators: Mapping[str, int]
    outside_standard: tuple[str, ...]
    parts: tuple[Part, ...]
    largest: tuple[Weight, ...]
    target: str
    sites: tuple[InspectedSite, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def weights_bytes(self) -> int:
        """Size of all initializers."""
        return sum(part.bytes for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the sum of the parts."""
        return {**super().to_dict(), "weights_bytes": self.weights_bytes}
