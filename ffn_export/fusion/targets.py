"""What a fused graph is for, and which forms that asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.fusion import canonicalise, rules
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule


@dataclass(frozen=True)
class Target:
    """A purpose of a graph.

    Attributes:
        name: What the command line calls it.
        summary: In a few words.
        kept: Kind of site -> why it is left as it is, where the target has no better form for it.
        fewest_nodes: Whether a feed-forward counts as fused only with one node between its products.
        provider: The execution provider whose costs decide between forms; None where none is left open.
        by_rows: Whether feed-forwards by rows, with biases in the products or in chunks, are open too.
        padded_widths: Whether feed-forwards with padded widths are open too.
    """

    name: str
    summary: str
    kept: Mapping[SiteKind, str] = field(default_factory=dict)
    fewest_nodes: bool = False
    provider: str | None = None
    by_rows: bool = False
    padded_widths: bool = False

    @property
    def rules(self) -> tuple[type[Rule], ...]:
        """All rules that it uses."""
        return (*self.canonical, *self.forms)

    @property
    def canonical(self) -> tuple[type[Rule], ...]:
        """The rules that raise spellings to one operator, a vendor's where this target asks for that."""
        own = [rule for rule in self._own if issubclass(rule, canonicalise.RULES)]
        replaced = {rule.instead_of for rule in own}
        return (*(rule for rule in canonicalise.RULES if rule not in replaced), *own)

    @property
    def forms(self) -> tuple[type[Rule], ...]:
        """The rules that put canonical operators together."""
        return tuple(rule for rule in self._own if not issubclass(rule, canonicalise.RULES))

    @property
    def _own(self) -> tuple[type[Rule], ...]:
        return tuple(rule for rule in rules.RULES if rule.targets is None or self.name in rule.targets)


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "portable",
            "standard operators only, for any runtime",
            {"residual_norm": "the standard has no operator for a residual sum and its norm"},
        ),
        Target("ort", "ONNX Runtime on CPU, the fewest nodes that it has kernels for", fewest_nodes=True),
        Target(
            "ort-cpu",
            "ONNX Runtime on CPU, the form of each site that was measured to be the fastest",
            provider="CPUExecutionProvider",
            by_rows=True,
            padded_widths=True,
        ),
        Target(
            "ort-cuda",
            "ONNX Runtime on CUDA, the fused operators that its provider has kernels for",
            provider="CUDAExecutionProvider",
        ),
    )
}


def get_target(name: str) -> Target:
    """Return the target of this name.

    Raises:
        UsageError: There is none.
    """
    if name not in TARGETS:
        raise UsageError(f"unknown target {name!r};{did_you_mean(name, TARGETS)} known are {', '.join(TARGETS)}")
    return TARGETS[name]
