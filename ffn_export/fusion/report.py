"""What a fusion did, site by site. Plain data: reports and manifests read it, nothing here makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SiteKind = Literal["feed_forward", "norm", "residual_norm"]
SiteStatus = Literal["fused", "kept", "refused", "rolled_back"]

KINDS: tuple[SiteKind, ...] = ("feed_forward", "norm", "residual_norm")


@dataclass(frozen=True)
class Site:
    """One occurrence of a thing worth fusing.

    Attributes:
        id: Stable within one report: ``feed_forward:0``.
        kind: What it is.
        name: Name of the node that ends it, with its PyTorch scope where the exporter noted one.
        status: ``fused``: it has the form that the target asks for. ``kept``: recognised, and left in
            another form for the reason given. ``refused``: a rule matched, and could not prove that the
            function stays the same. ``rolled_back``: fused, then undone because results differed.
        form: The operators it consists of now, in the order of the data.
        rule: The rules that made the form, joined by ``+``; None where it came in this form.
        reason: Why it was kept, refused or rolled back, or that it came in this form.
        activation: Activation of a feed-forward, by the name of the reference modules.
        gated: Whether a feed-forward multiplies the activation by a second projection.
        d_model: Width of the residual stream, where the weights tell it.
        d_ff: Width of the hidden layer of a feed-forward.
    """

    id: str
    kind: SiteKind
    name: str
    status: SiteStatus
    form: str
    rule: str | None = None
    reason: str | None = None
    activation: str | None = None
    gated: bool | None = None
    d_model: int | None = None
    d_ff: int | None = None


@dataclass(frozen=True)
class FusionReport:
    """All sites of a model, the rules that were applied, and the node counts.

    Attributes:
        target: What the graph was fused for.
        sites: The sites, in graph order.
        rules: Rule name -> number of applications.
        nodes: ``{"before": n, "after": n}``.
        opset: ``{"before": n, "after": n}`` of the default domain.
    """

    target: str
    sites: tuple[Site, ...]
    rules: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    opset: Mapping[str, int] = field(default_factory=dict)

    def count(self, kind: SiteKind, status: SiteStatus = "fused") -> int:
        """Return how many sites of a kind have a status."""
        return sum(site.kind == kind and site.status == status for site in self.sites)

    def explain(self) -> str:
        """Return one line a site: what it is, what became of it, and why."""
        lines = [f"{s.id} {s.status}: {s.form}{f' ({s.reason})' if s.reason else ''}" for s in self.sites]
        return "\n".join(lines) or "no feed-forward, norm or residual + norm was found"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "sites": [asdict(site) for site in self.sites]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FusionReport:
        """Read what :meth:`to_dict` wrote."""
        return cls(
            target=data["target"],
            sites=tuple(Site(**site) for site in data["sites"]),
            rules=dict(data["rules"]),
            nodes=dict(data["nodes"]),
            opset=dict(data["opset"]),
        )
