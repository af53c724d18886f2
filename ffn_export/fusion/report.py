"""What a fusion did, site by site. Plain data: reports and manifests read it, nothing here makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SiteKind = Literal["feed_forward", "norm", "residual_norm"]
SiteStatus = Literal["fused", "kept", "refused", "rolled_back"]
CheckStatus = Literal["passed", "rolled back", "not checked"]

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
class Check:
    """What running both graphs on drawn inputs showed.

    How long it took is left out: a bundle built twice has the same bytes.

    Attributes:
        status: ``passed``: the graph that was made computes what the model does. ``rolled back``: so it does
            since some of what was done was undone. ``not checked``: nobody compared them.
        reason: Why it was not checked, or not on all inputs; what was rolled back.
        worst: Largest difference of what was kept, relative to the largest number of its tensor; None where
            nothing was compared.
        tolerance: What is allowed of it.
        runtime: What ran both graphs.
        sizes: Sizes of the symbolic axes on which they ran.
    """

    status: CheckStatus = "not checked"
    reason: str | None = None
    worst: float | None = None
    tolerance: float | None = None
    runtime: str | None = None
    sizes: tuple[Mapping[str, int], ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Check:
        """Read what :meth:`FusionReport.to_dict` wrote."""
        return cls(**{**data, "sizes": tuple(data["sizes"])})


NOT_ASKED_FOR = Check(reason="it was not asked for")


@dataclass(frozen=True)
class FusionReport:
    """All sites of a model, the rules that were applied, and the node counts.

    Attributes:
        target: What the graph was fused for.
        sites: The sites, in graph order.
        rules: Rule name -> number of applications.
        nodes: ``{"before": n, "after": n}``.
        opset: ``{"before": n, "after": n}`` of the default domain.
        check: Whether both graphs were run and compared, and how that went.
        problem: What fusing raised, so that the model is as it came; None where it went through.
    """

    target: str
    sites: tuple[Site, ...]
    rules: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    opset: Mapping[str, int] = field(default_factory=dict)
    check: Check = NOT_ASKED_FOR
    problem: str | None = None

    def count(self, kind: SiteKind, status: SiteStatus = "fused") -> int:
        """Return how many sites of a kind have a status."""
        return sum(site.kind == kind and site.status == status for site in self.sites)

    def explain(self) -> str:
        """Return one line a site: what it is, what became of it, and why."""
        lines = [] if self.problem is None else [self.problem]
        lines += [f"{s.id} {s.status}: {s.form}{f' ({s.reason})' if s.reason else ''}" for s in self.sites]
        return "\n".join(lines) or "no feed-forward, norm or residual + norm was found"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        data = asdict(self)
        data["sites"], data["check"]["sizes"] = list(data["sites"]), list(data["check"]["sizes"])
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FusionReport:
        """Read what :meth:`to_dict` wrote.

        Raises:
            ValueError: If counts are not of before and after.
        """
        for counts in (data["nodes"], data["opset"]):
            if counts and set(counts) != {"before", "after"}:
                raise ValueError(f"counts before and after are named {', '.join(counts)}")
        return cls(
            target=data["target"],
            sites=tuple(Site(**site) for site in data["sites"]),
            rules=dict(data["rules"]),
            nodes=dict(data["nodes"]),
            opset=dict(data["opset"]),
            # Reports of earlier versions have none.
            check=Check.from_dict(data["check"]) if "check" in data else Check(reason="it was not recorded"),
            problem=data.get("problem"),
        )
