"""The report of a fusion, site by site: plain data that reports and manifests read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown
from ffn_export.errors import UsageError, did_you_mean

SiteKind = Literal["feed_forward", "norm", "residual_norm"]
SiteStatus = Literal["rewritten", "already optimal", "kept", "refused", "rolled back"]
CheckStatus = Literal["passed", "rolled back", "not checked"]

KINDS: tuple[SiteKind, ...] = get_args(SiteKind)
SITE_STATUSES: tuple[SiteStatus, ...] = get_args(SiteStatus)

# Version of the stored format, increased by every change that a reader must know.
FORMAT = 2


def check_required(required: Mapping[SiteKind, int]) -> None:
    """Check that kinds of sites are known, and that one or more of each are required.

    Raises:
        UsageError: If not.
    """
    if not isinstance(required, Mapping):
        raise UsageError(f"require_fusion is a mapping of kinds of sites to numbers, got {required!r}")
    for kind, count in required.items():
        if kind not in KINDS:
            meant = did_you_mean(kind, KINDS)
            raise UsageError(f"--require-fusion names an unknown kind {kind!r};{meant} known are {', '.join(KINDS)}")
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"--require-fusion of {kind} needs a number of 1 or more, as in feed_forward=12")


@dataclass(frozen=True)
class Site:
    """One feed-forward, norm, or residual sum with its norm.

    Attributes:
        id: Identifier, stable within one report: ``feed_forward:0``.
        kind: Kind of site.
        name: Name of its last node, with its PyTorch scope if the exporter noted one.
        status: ``rewritten``: a rule gave it the form that the target asks for. ``already optimal``: it came in that
            form. ``kept``: recognised, and left in another form for the reason given. ``refused``: a rule matched, and
            could not prove that the function stays the same. ``rolled back``: rewritten, then undone because results
            differed.
        form: Its operators now, in topological order.
        rule: Rules that made the form, in this fusion or an earlier one, joined by ``+``; None if none did.
        reason: Why it was kept, refused or rolled back, or does not have an optional form.
        evidence: The measured costs behind the reason, which belong to one machine.
        activation: Activation of a feed-forward, by the name of the reference modules.
        gated: Whether a feed-forward multiplies the activation by a second projection.
        d_model: Width of the residual stream, if the weights tell it.
        d_ff: Width of the hidden layer of a feed-forward.

    Examples:
        >>> _, report = fx.fuse(fx.export("d2l-ffn"), target="portable")
        >>> (site,) = report.sites
        >>> site.kind, site.activation, site.d_ff
        ('feed_forward', 'relu', 8)
    """

    id: str
    kind: SiteKind
    name: str
    status: SiteStatus
    form: str
    rule: str | None = None
    reason: str | None = None
    evidence: str | None = None
    activation: str | None = None
    gated: bool | None = None
    d_model: int | None = None
    d_ff: int | None = None

    @property
    def is_in_target_form(self) -> bool:
        """Whether it has the form that the target asks for, rewritten or not."""
        return self.status in ("rewritten", "already optimal")


@dataclass(frozen=True)
class Check:
    """Result of running both graphs on drawn inputs.

    It holds no durations, so that a bundle built twice has the same bytes.

    Attributes:
        status: ``passed``: both graphs compute the same. ``rolled back``: they do since some rewrites were undone.
            ``not checked``: the graphs were not compared.
        reason: Why it was not checked, or not on all inputs; or what was rolled back.
        worst: Largest difference of the kept graph, relative to the largest number of its tensor; None if nothing was
            compared.
        tolerance: Largest difference allowed.
        runtime: Runtime that ran both graphs.
        sizes: Sizes of the symbolic axes on which they ran.
    """

    status: CheckStatus = "not checked"
    reason: str | None = None
    worst: float | None = None
    tolerance: float | None = None
    runtime: str | None = None
    sizes: tuple[Mapping[str, int], ...] = ()


NOT_ASKED_FOR = Check(reason="it was not asked for")


@dataclass(frozen=True)
class FusionReport(PlainData, Shown):
    """All sites of a model, the rules that were applied, and the node counts.

    Attributes:
        target: Target of the fusion.
        sites: The sites, in graph order.
        rules: Rule name -> number of applications.
        nodes: ``{"before": n, "after": n}``.
        opset: ``{"before": n, "after": n}`` of the default domain.
        check: Comparison of both graphs on drawn inputs.
        outlined: Kind of node of the domain ``ai.ffn_export`` -> number of nodes.
        problem: Error that fusing raised, so that the model is unchanged; None if it succeeded.

    Examples:
        >>> _, report = fx.fuse(fx.export("d2l-ffn-addnorm"))
        >>> "feed_forward" in report.explain()
        True
    """

    target: str
    sites: tuple[Site, ...]
    rules: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    opset: Mapping[str, int] = field(default_factory=dict)
    check: Check = NOT_ASKED_FOR
    problem: str | None = None
    outlined: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for counts in (self.nodes, self.opset):
            if counts and set(counts) != {"before", "after"}:
                raise ValueError(f"counts before and after are named {', '.join(counts)}")

    def count(self, kind: SiteKind, status: SiteStatus | None = None) -> int:
        """Return how many sites of a kind have a status; by default, how many are in the target's form."""
        sites = [site for site in self.sites if site.kind == kind]
        return sum(site.is_in_target_form if status is None else site.status == status for site in sites)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the version of the format."""
        return {"format": FORMAT, **super().to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read plain data.

        Raises:
            UsageError: If it is a report of another format.
            ValueError: If a field is missing or has another type.
        """
        if data.get("format") != FORMAT:
            found = data.get("format", "none")
            raise UsageError(f"this is no fusion report of format {FORMAT}, which this version reads (found: {found})")
        return super().from_dict(data)

    def explain(self) -> str:
        """Return one line for each site: identifier, status, form, reason and evidence."""
        lines = [] if self.problem is None else [self.problem]
        for site in self.sites:
            why = ": ".join(filter(None, (site.reason, site.evidence)))
            lines.append(f"{site.id} {site.status}: {site.form}{f' ({why})' if why else ''}")
        return "\n".join(lines) or "no feed-forward, norm or residual + norm was found"
