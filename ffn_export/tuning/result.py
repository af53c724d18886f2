"""What tuning found, as evidence. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any, Literal

from ffn_export.latency.result import FEW_TOKENS, Ratio
from ffn_export.runtimes.environment import Environment
from ffn_export.tuning.choice import Choice

# What the best has to gain before the default is left: few tokens are noisier, by where pages lie.
MARGIN, MARGIN_FEW = 0.03, 0.10
# What a candidate may lose in the other group of sizes: less than anybody can measure again.
NOISE = 0.01

Outcome = Literal["taken", "left", "changes nothing", "refused"]


@dataclass(frozen=True)
class Pair:
    """Two choices at one set of sizes, timed in turn.

    Attributes:
        label: The sizes, such as ``batch=1,seq=128``.
        tokens: How many tokens these are.
        ratio: The candidate's time over the other's.
        stolen: As of a :class:`~ffn_export.latency.result.Measurement`.
    """

    label: str
    tokens: int
    ratio: Ratio
    stolen: float | None = None

    @property
    def is_few(self) -> bool:
        """Whether they are so few tokens that a larger margin is needed."""
        return self.tokens <= FEW_TOKENS

    @property
    def margin(self) -> float:
        """What has to be gained at these sizes."""
        return MARGIN_FEW if self.is_few else MARGIN


@dataclass(frozen=True)
class Trial:
    """One thing that was tried.

    Attributes:
        move: Its name.
        outcome: ``taken``: it was faster than the best so far. ``changes nothing``: the graph and the options are
            those of the best so far. ``refused``: it fails what the result has to pass, such as the
            error budget, or the runtime does not take it.
        reason: Why, in words.
        pairs: The candidate over the best so far, for each set of sizes.
    """

    move: str
    outcome: Outcome
    reason: str
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class TuningResult:
    """What was tried, and what was chosen.

    Attributes:
        target: What the graph is fused for.
        runtime: What was timed.
        tokens: The numbers of tokens that were asked for.
        default: The choice where nobody tunes.
        best: The best that was found.
        chosen: The best where it keeps its lead, else the default.
        reason: Why that was chosen, in words.
        trials: Everything that was tried, in this order.
        held_out: The best over the default, on rounds that had no part in finding it; empty where they are one.
        environment: Where.
    """

    target: str
    runtime: str
    tokens: tuple[int, ...]
    default: Choice
    best: Choice
    chosen: Choice
    reason: str
    trials: tuple[Trial, ...]
    held_out: tuple[Pair, ...] = ()
    environment: Environment | None = None

    @property
    def leaves_default(self) -> bool:
        """Whether something else than the default was chosen."""
        return self.chosen != self.default

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        choices = {name: getattr(self, name).to_dict() for name in ("default", "best", "chosen")}
        return {**asdict(self), **choices, "tokens": list(self.tokens)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TuningResult:
        """Read what :meth:`to_dict` wrote."""
        trials = (Trial(**{**trial, "pairs": _pairs(trial["pairs"])}) for trial in data["trials"])
        return cls(
            target=data["target"],
            runtime=data["runtime"],
            tokens=tuple(data["tokens"]),
            default=Choice.from_dict(data["default"]),
            best=Choice.from_dict(data["best"]),
            chosen=Choice.from_dict(data["chosen"]),
            reason=data["reason"],
            trials=tuple(trials),
            held_out=_pairs(data["held_out"]),
            environment=Environment.from_dict(data["environment"]) if data["environment"] else None,
        )


def mean_ratio(pairs: Iterable[Pair]) -> float:
    """Return the geometric mean of the ratios of one pair or more."""
    return geometric_mean(pair.ratio.value for pair in pairs)


def lead(pairs: Iterable[Pair]) -> tuple[bool, str]:
    """Say whether a candidate is faster by the margin at few tokens or at many, and slower nowhere.

    Where it is faster, one of its intervals is wholly below 1; where an interval is wholly above what is called noise,
    it is slower. Where a ratio is inconclusive, nobody knows.

    Returns:
        That, and the figures in words.
    """
    pairs = tuple(pairs)
    groups = {margin: [pair for pair in pairs if pair.margin == margin] for margin in (MARGIN_FEW, MARGIN)}
    means = {margin: mean_ratio(group) for margin, group in groups.items() if group}
    where = {MARGIN_FEW: f"up to {FEW_TOKENS} tokens", MARGIN: f"above {FEW_TOKENS}"}
    figures = [f"{mean:.3f} of its time {where[margin]} (needed {1 - margin:.2f})" for margin, mean in means.items()]
    enough = [margin for margin in means if means[margin] <= 1 - margin]
    is_ahead = any(pair.ratio.verdict == "faster" for margin in enough for pair in groups[margin])
    words = " and ".join(figures)
    if enough and not is_ahead:
        words += ", but no interval below 1 there"
    is_behind = any(mean > 1 + NOISE for mean in means.values()) or any(pair.ratio.low > 1 + NOISE for pair in pairs)
    unsure = unmeasured(pairs)
    return is_ahead and not is_behind and not unsure, words + (f"; {unsure}" if unsure else "")


def unmeasured(pairs: Iterable[Pair]) -> str:
    """Name the sizes whose ratios are inconclusive, and why, in words; empty where there are none."""
    return "; ".join(f"inconclusive at {pair.label}: {pair.ratio.doubt}" for pair in pairs if pair.ratio.doubt)


def _pairs(data: Iterable[Mapping[str, Any]]) -> tuple[Pair, ...]:
    return tuple(Pair(each["label"], each["tokens"], Ratio(**each["ratio"]), each.get("stolen")) for each in data)
