"""What an inspection found. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ffn_export.fusion.report import SiteKind, SiteStatus


@dataclass(frozen=True)
class Weight:
    """One initialiser.

    Attributes:
        name: Its name.
        dtype: Element type.
        shape: Its shape.
        bytes: Its size.
        part: The part of the model that reads it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    part: str


@dataclass(frozen=True)
class Part:
    """The initialisers of one part: a kind of site, ``embedding`` or ``other``."""

    name: str
    initializers: int
    bytes: int


@dataclass(frozen=True)
class InspectedSite:
    """A site as it is, and as fusing would leave it.

    Attributes:
        id: Its identifier in the fusion report.
        kind: What it is.
        name: Name of the node that ends it.
        status: What fusing would make of it.
        form_now: Its operators in the model as it is; None where fusing moved its borders.
        form_after: Its operators after fusing.
        rule: The rules that would write that form.
        reason: Why it would be kept, refused or rolled back, or that it has this form.
        bytes: Size of the initialisers that it reads.
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


@dataclass(frozen=True)
class Inspection:
    """Everything that a model says of itself.

    Attributes:
        model: The file.
        producer: Program that wrote it, with its version.
        ir_version: Version of the ONNX file format.
        opset_imports: Domain -> version.
        inputs: Name, dtype and symbolic shape of each input.
        outputs: The same of each output.
        operators: Operator -> number of nodes.
        outside_standard: ``domain::Operator`` of each that the standard does not have.
        parts: Size of the weights, part by part.
        largest: The largest initialisers.
        target: What the sites were judged for.
        sites: The sites.
        nodes: Number of nodes before and after fusing.
        notes: What could not be read or asked, and why.
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
        """Size of all initialisers."""
        return sum(part.bytes for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the sum of the parts."""
        return {**asdict(self), "weights_bytes": self.weights_bytes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inspection:
        """Read what :meth:`to_dict` wrote."""
        return cls(
            **{
                **{key: value for key, value in data.items() if key != "weights_bytes"},
                "inputs": tuple(data["inputs"]),
                "outputs": tuple(data["outputs"]),
                "outside_standard": tuple(data["outside_standard"]),
                "parts": tuple(Part(**part) for part in data["parts"]),
                "largest": tuple(Weight(**{**weight, "shape": tuple(weight["shape"])}) for weight in data["largest"]),
                "sites": tuple(InspectedSite(**site) for site in data["sites"]),
                "notes": tuple(data["notes"]),
            }
        )
