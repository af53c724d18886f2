"""How a bundle is built. A new option is a field of both classes here, and an option of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.report import SiteKind
from ffn_export.latency.gate import check_ratio
from ffn_export.parity.judging.tolerances import check_budget
from ffn_export.quantization.options import DEFAULT_BUDGET, QuantizationOptions
from ffn_export.tuning.options import TuneOptions


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build.

    Attributes:
        target: What to fuse for.
        opset: Opset of the export; fusing may raise it.
        runtimes: Runtimes that must judge it; None means all that can.
        threads: Intra-op threads; None means the processors that this process may run on.
        seed: Seed of the drawn inputs.
        max_ratio: Largest allowed median time over PyTorch's; None means latency is no gate.
        require_fusion: Kind of site -> how many must be fused.
        bench_budget: Seconds of timed runs for each competitor and set of sizes; 0 leaves the timing out.
        check: Whether the exported and the fused graph are run and compared, and what differs is undone.
        outline: Make each feed-forward one node.
        portable_functions: Give the operators of ``com.microsoft`` bodies in standard operators.
        quantization: How weights are stored in few bits; None leaves them as they are.
        budget: Declared relative L2 error of an output; None means 0.02 for a quantised model, and for others the
            bound in units of the last place. A model that tuning stores in 8 bits keeps the budget of ``tuning``, too.
        forms: The forms that are used of those which the target leaves open; None means what the table of costs says.
        tuning: How the forms, the session options and, with a budget, the storage of weights are chosen by measuring;
            None measures nothing. It excludes ``quantization``.

    Raises:
        UsageError: If the ratio or the budget is no finite number above 0.
    """

    target: str = "ort-cpu"
    opset: int = DEFAULT_OPSET
    runtimes: Sequence[str] | None = None
    threads: int | None = None
    seed: int = 0
    max_ratio: float | None = None
    require_fusion: Mapping[SiteKind, int] = field(default_factory=dict)
    bench_budget: float = 1.5
    check: bool = True
    outline: bool = False
    portable_functions: bool = False
    quantization: QuantizationOptions | None = None
    budget: float | None = None
    forms: Forms | None = None
    tuning: TuneOptions | None = None

    def __post_init__(self) -> None:
        if self.budget is None and self.quantization is not None:
            object.__setattr__(self, "budget", DEFAULT_BUDGET)
        if self.budget is not None:
            check_budget(self.budget)
        if self.max_ratio is not None:
            check_ratio(self.max_ratio)


class GivenBuildOptions(TypedDict, total=False):
    """Keywords of :func:`ffn_export.build` that are fields of :class:`BuildOptions`, for type checkers."""

    target: str
    opset: int
    runtimes: Sequence[str] | None
    threads: int | None
    max_ratio: float | None
    require_fusion: Mapping[SiteKind, int]
    bench_budget: float
    check: bool
    outline: bool
    portable_functions: bool
    quantization: QuantizationOptions | None
    budget: float | None
    forms: Forms | None
    tuning: TuneOptions | None
