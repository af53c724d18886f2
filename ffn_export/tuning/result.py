"""Result of the tuning, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown
from ffn_export.latency.result import FEW_TOKENS, Ratio
from ffn_export.runtimes.environment import Environment
from ffn_export.tuning.choice import Choice

# Gain that the best needs to replace the default. Timings of few tokens are noisier, since they depend on where
# memory pages lie.
MARGIN, MARGIN_FEW = 0.03, 0.10
# Loss that a candidate may have in the other group of sizes: too small to be measured reproducibly.
NOISE = 0.01

Outcome = Literal["taken", "left", "changes nothing", "refused"]


@dataclass(frozen=True)
class Pair:
    """Two choices at one set of sizes, timed in turn.

    Attributes:
        label: The sizes, such as ``batch=1,seq=128``.
        tokens: Number of tokens at these sizes.
        ratio: The candidate's time over the other's.
        stolen: As in :class:`~ffn_export.latency.result.Measurement`.
    """

    label: str
    tokens: int
    ratio: Ratio
    stolen: float | None = None

    @property
    def is_few(self) -> bool:
        """Whether the number of tokens is so small that the larger margin applies."""
        return self.tokens <= FEW_TOKENS

    @property
    def margin(self) -> float:
        """Gain needed at these sizes."""
        return MARGIN_FEW if self.is_few else MARGIN


@dataclass(frozen=True)
class Trial:
    """Trial of one move.

    Attributes:
        move: Name of the move.
        outcome: ``taken``: it was faster than the best so far. ``left``: it was not faster. ``changes nothing``: the
            graph and the options are those of the best so far. ``refused``: it fails the verification, such as the
            error budget, or the runtime cannot run it.
        reason: Reason for the outcome, in words.
        pairs: The candidate's times over those of the best so far, for each set of sizes.
    """

    move: str
    outcome: Outcome
    reason: str
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class TuningResult(PlainData, Shown):
    """The trials of a tuning and its choice.

    Attributes:
        target: Fusion target.
        runtime: Timed runtime.
        tokens: Requested numbers of tokens.
        default: The choice without tuning.
        best: The best choice of the search.
        chosen: The best choice if it keeps its lead on held-out timings, otherwise the default.
        reason: Reason for the choice, in words.
        trials: All trials, in order.
        held_out: The best over the default, on sessions and rounds that had no part in the search; empty if the best
            is the default.
        environment: Environment of the timings.

    Examples:
        >>> tuned = fx.tune("model.onnx", options=fx.TuneOptions(tokens=(16,), seconds=0.001), threads=1)
        >>> tuned.tuning.tokens
        (16,)
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
        """Whether the choice differs from the default."""
        return self.chosen != self.default


def mean_ratio(pairs: Iterable[Pair]) -> float:
    """Return the geometric mean of the ratios; at least one pair is required."""
    return geometric_mean(pair.ratio.value for pair in pairs)


def lead(pairs: Iterable[Pair]) -> tuple[bool, str]:
    """Return whether a candidate is faster by the margin, at few tokens or at many, and nowhere slower.

    1. Faster: the mean ratio of a group of sizes has the margin, and the whole interval of one of its ratios is
       below 1.
    2. Slower: the mean ratio of a group, or the whole interval of a ratio, is above 1 + :data:`NOISE`.
    3. An inconclusive ratio means no lead.

    Returns:
        Whether the candidate leads, and the figures in words.
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
    """Return the sizes whose ratios are inconclusive, with reasons, in words; empty if there are none."""
    return "; ".join(f"inconclusive at {pair.label}: {pair.ratio.doubt}" for pair in pairs if pair.ratio.doubt)
