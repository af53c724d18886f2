"""Goals that were set for the fused graphs, and whether a run reached them. One thread, ratios of medians."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Literal

import numpy as np

from ffn_export.latency.result import Ratio
from peers.result import BARE, ORT_PEERS, OURS, TORCH, Cell, ExportTimes, Results

Verdict = Literal["reached", "missed", "not measured"]
_THREADS = 1
_MIDDLE = (64, 128, 512)
_LARGE = (2048, 4096)


@dataclass(frozen=True)
class Figure:
    """What was measured for a goal.

    Attributes:
        value: The number that the bar is for.
        detail: What it is made of.
    """

    value: float
    detail: str


@dataclass(frozen=True)
class Goal:
    """A bar, and how its figure is read off the results.

    Attributes:
        text: What was aimed at.
        bar: The most that the figure may be.
        figure: Reads it off the results; None where they do not hold it.
        is_percentage: Whether it is written as a percentage.
    """

    text: str
    bar: float
    figure: Callable[[Results], Figure | None]
    is_percentage: bool = False

    def verdict(self, results: Results) -> Verdict:
        """Judge the results; the figure is taken as it is, whatever its interval."""
        figure = self.figure(results)
        if figure is None:
            return "not measured"
        return "reached" if figure.value <= self.bar else "missed"


def _mean_ratio(
    baseline: str, competitor: str = OURS, tokens: tuple[int, ...] = (), block: str | None = None
) -> Callable[[Results], Figure | None]:
    """Return what gives the geometric mean of a ratio over cells.

    Args:
        baseline: Below the line.
        competitor: Above it; ``ours`` itself is below it for further forms of ours.
        tokens: Only these; all where there are none.
        block: Only the block of this name with its widths.
    """

    def figure(results: Results) -> Figure | None:
        cells = [cell for cell in _cells(results, tokens) if block in (None, cell.name)]
        found = [(cell, _value(cell, competitor, baseline)) for cell in cells]
        return _mean([(cell, value) for cell, value in found if value is not None])

    return figure


def _value(cell: Cell, competitor: str, baseline: str) -> float | None:
    """Ratios are stored as ours over another: a further form of ours over ours is the inverse."""
    if baseline == OURS:
        turned = cell.ratio(competitor)
        return None if turned is None else 1 / turned.value
    ratio = cell.ratio(baseline, competitor)
    return None if ratio is None else ratio.value


def _mean(values: list[tuple[Cell, float]]) -> Figure | None:
    if not values:
        return None
    numbers = [value for _, value in values]
    (best, low), (worst, high) = min(values, key=lambda v: v[1]), max(values, key=lambda v: v[1])
    spread = f"{low:.3f} ({best.name}, {best.tokens_text}) to {high:.3f} ({worst.name}, {worst.tokens_text})"
    return Figure(
        geometric_mean(numbers),
        f"geometric mean of {len(numbers)} {'cell' if len(numbers) == 1 else 'cells'}, {spread}",
    )


@dataclass(frozen=True)
class Noise:
    """The times of one file over its own, loaded a second time.

    Attributes:
        low: What one cell in twenty is below.
        high: What one cell in twenty is above.
        cells: How many there are.
        told_apart: In how many the interval does not hold 1.
    """

    low: float
    high: float
    cells: int
    told_apart: int


def noise(results: Results, threads: int) -> Noise | None:
    """Return how far apart two loads of one file are: a difference below that says nothing of a cell."""
    ratios = [r for cell in _cells(results, threads=threads) if (r := cell.ratio("ours-again")) is not None]
    if not ratios:
        return None
    low, high = np.percentile([ratio.value for ratio in ratios], (5, 95))
    return Noise(float(low), float(high), len(ratios), sum(not ratio.is_tie for ratio in ratios))


def _over_the_best_peer(number: Callable[[Ratio], float]) -> Callable[[Results], Figure | None]:
    """Return what gives the worst of a number of the ratios over the best peer of each cell."""

    def figure(results: Results) -> Figure | None:
        of_cells = [
            (cell, [r for name in ORT_PEERS if (r := cell.ratio(name)) is not None]) for cell in _cells(results)
        ]
        worst_of_each = [(cell, max(ratios, key=number)) for cell, ratios in of_cells if ratios]
        if not worst_of_each:
            return None
        cell, ratio = max(worst_of_each, key=lambda each: number(each[1]))
        where = f"the worst of {len(worst_of_each)} cells: {cell.name}, {cell.tokens_text}, over {ratio.baseline}"
        return Figure(number(ratio), f"{where}: {ratio.value:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}")

    return figure


def _eight_bits(results: Results) -> Figure | None:
    if results.accuracy is None:
        return None
    found = results.accuracy
    where = f"over all {len(found.layers)} layers of {found.model}, {found.tokens} tokens"
    return Figure(
        max(found.products, found.block),
        f"{where}: {found.products:.2%} of the feed-forwards alone, {found.block:.2%} with residual and norm",
    )


def _eight_bits_of_a_layer(results: Results) -> Figure | None:
    if results.accuracy is None:
        return None
    worst = max(results.accuracy.layers, key=lambda layer: max(layer.products, layer.block))
    detail = f"layer {worst.layer}: {worst.products:.2%} alone, {worst.block:.2%} with residual and norm"
    return Figure(max(worst.products, worst.block), detail)


def _export(fusing: Callable[[ExportTimes], tuple[float, ...]]) -> Callable[[Results], Figure | None]:
    """Return what gives our export with one way of fusing over torch's export."""

    def figure(results: Results) -> Figure | None:
        times = results.export_times
        if times is None:
            return None
        ours = median(map(sum, zip(times.export, fusing(times), strict=True)))
        of_torch = median(times.torch)
        return Figure(ours / of_torch, f"{ours:.1f} s over {of_torch:.1f} s, medians of {len(times.torch)}")

    return figure


def _tuning(results: Results) -> Figure | None:
    seconds = results.tune_seconds
    return None if seconds is None else Figure(seconds, f"the command's own time, {results.environment.processor}")


def _cells(results: Results, tokens: tuple[int, ...] = (), threads: int = _THREADS) -> Iterable[Cell]:
    return (cell for cell in results.cells if cell.threads == threads and (not tokens or cell.tokens in tokens))


GOALS = (
    Goal(
        "ours / ort, bert-ffn 768/3072, 64 to 512 tokens",
        0.93,
        _mean_ratio("ort", tokens=_MIDDLE, block="bert-ffn 768/3072"),
    ),
    Goal(
        "ours / best of ort, onnxscript and ort-transformers, any cell",
        1.03,
        _over_the_best_peer(lambda ratio: ratio.value),
    ),
    Goal("the same beyond the noise: the low end of its interval", 1.03, _over_the_best_peer(lambda ratio: ratio.low)),
    Goal("ours / torch, the whole table", 0.48, _mean_ratio(TORCH)),
    Goal("ours / bare, 64 to 512 tokens", 1.06, _mean_ratio(BARE, tokens=_MIDDLE)),
    Goal("ours / bare, 2048 and 4096 tokens", 1.10, _mean_ratio(BARE, tokens=_LARGE)),
    Goal("ours-chunked / ours, 4096 tokens", 0.95, _mean_ratio(OURS, "ours-chunked", (4096,))),
    Goal("ours-8bit / ours, 1 token", 0.32, _mean_ratio(OURS, "ours-8bit", (1,))),
    Goal("ours-8bit, relative L2 error on real activations", 0.01, _eight_bits, is_percentage=True),
    Goal("ours-8bit, the same of the worst single layer", 0.01, _eight_bits_of_a_layer, is_percentage=True),
    Goal("ffn-export tune bert-ffn, default settings, seconds", 120, _tuning),
    Goal("export and fuse / torch.onnx.export alone, BERT-base", 1.25, _export(lambda times: times.fuse)),
    Goal("the same with both graphs run and compared, the default", 1.25, _export(lambda times: times.checked_fuse)),
)
