"""The tables of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from statistics import geometric_mean

from ffn_export.latency.result import Ratio
from ffn_export.reports.markdown_table import markdown_table
from peers.goals import GOALS
from peers.result import FLOAT32_PEERS, OTHER_PRECISIONS, OURS, Accuracy, Cell, Results

_LIMIT = "limit (ms)"


def goals(results: Results) -> str:
    """Return each bar with the figure of this run."""
    headers = ("goal", "at most", "this run", "", "how")
    rows = []
    for goal in GOALS:
        figure = goal.figure(results)
        form = "{:.2%}" if goal.is_percentage else "{:.3f}"
        value = "" if figure is None else form.format(figure.value)
        bar = f"{goal.bar:.0%}" if goal.is_percentage else f"{goal.bar:.2f}"
        rows.append((goal.text, bar, value, goal.verdict(results), "" if figure is None else figure.detail))
    return markdown_table(headers, rows, numbers=("at most", "this run"))


def against_each(cells: Sequence[Cell]) -> str:
    """Return ours over each other competitor: geometric mean, extremes, and in how many cells who was faster."""
    names = dict.fromkeys(ratio.baseline for cell in cells for ratio in cell.ratios if ratio.runtime == OURS)
    rows = []
    for name in names:
        ratios = [ratio for cell in cells if (ratio := cell.ratio(name)) is not None]
        values = [ratio.value for ratio in ratios]
        ties = sum(ratio.is_tie for ratio in ratios)
        losses = sum(ratio.low > 1 for ratio in ratios)
        counts = (len(ratios) - ties - losses, ties, losses)
        rows.append(
            (
                labelled(name),
                f"{geometric_mean(values):.3f}",
                f"{min(values):.3f}",
                f"{max(values):.3f}",
                *map(str, counts),
            )
        )
    headers = ("ours over", "geometric mean", "least", "most", "ours faster", "ties", "it is faster")
    return markdown_table(headers, rows, numbers=headers[1:])


def times(cells: Sequence[Cell], competitors: Sequence[str]) -> str:
    """Return the median of each competitor in milliseconds, a row a cell."""
    timed = [name for name in competitors if any(cell.timing(name) for cell in cells)]
    columns = tuple(map(labelled, timed))
    rows = []
    for cell in cells:
        medians = [timing.median if (timing := cell.timing(name)) else None for name in timed]
        limit = "" if cell.limit is None else milliseconds(cell.limit)
        sizes = () if cell.widths is None else (f"{cell.widths[0]}/{cell.widths[1]}",)
        rows.append((*sizes, str(cell.tokens), *("" if m is None else milliseconds(m) for m in medians), limit))
    first = ("widths", "tokens") if cells[0].widths is not None else ("tokens",)
    headers = (*first, *columns, _LIMIT)
    return markdown_table(headers, rows, numbers=("tokens", *columns, _LIMIT))


def losses(cells: Iterable[Cell]) -> str:
    """Return every cell and peer where the peer is faster beyond the interval, the worst first; nothing without any."""
    found = [(cell, ratio) for cell in cells for ratio in cell.ratios if _is_lost(ratio)]
    found.sort(key=lambda each: -each[1].value)
    rows = [
        (
            cell.name,
            str(cell.tokens),
            str(cell.threads),
            labelled(ratio.baseline),
            f"{ratio.value:.3f}",
            f"{ratio.low:.3f} to {ratio.high:.3f}",
            _best_form(cell, ratio.baseline),
        )
        for cell, ratio in found
    ]
    headers = ("model", "tokens", "threads", "faster is", "ours over it", "95 % interval", "our best form over it")
    return markdown_table(headers, rows, numbers=("tokens", "threads", "ours over it")) if rows else ""


def _is_lost(ratio: Ratio) -> bool:
    others = (*FLOAT32_PEERS, *(name for name in OTHER_PRECISIONS if not name.startswith(OURS)))
    return ratio.runtime == OURS and ratio.baseline in others and ratio.low > 1


def _best_form(cell: Cell, baseline: str) -> str:
    """Return the fastest form of ours in float32 beside the default, over a peer, where there is one."""
    others = [r for r in cell.ratios if r.baseline == baseline and r.runtime not in (OURS, "ours-again")]
    if not others:
        return ""
    best = min(others, key=lambda ratio: ratio.value)
    return f"{best.value:.3f} ({best.runtime})"


def taken_apart(cells: Iterable[Cell]) -> str:
    """Return where the time goes in the cells where OpenVINO is faster; nothing where there is none."""
    rows = []
    for cell in cells:
        for runtime, operators in cell.operators.items():
            total = fsum(operators.values())  # the same digits on every version of Python
            parts = ", ".join(
                f"{name} {seconds / total:.0%}" for name, seconds in operators.items() if seconds > total / 100
            )
            ratio = cell.ratio("openvino")
            over = "" if ratio is None or runtime != OURS else f"{ratio.value:.3f}"
            rows.append((cell.name, str(cell.tokens), str(cell.threads), runtime, over, milliseconds(total), parts))
    headers = ("model", "tokens", "threads", "runtime", "over openvino", "sum (ms)", "operators")
    return markdown_table(headers, rows, numbers=headers[1:3] + headers[4:6]) if rows else ""


def refusals(cells: Iterable[Cell]) -> str:
    """Return what was not timed and why, with the number of cells; nothing where all were."""
    counted: dict[tuple[str, str, str], int] = {}
    for cell in cells:
        for name, reason in cell.refused.items():
            key = (cell.name, labelled(name), reason)
            counted[key] = counted.get(key, 0) + 1
    rows = [(model, name, str(count), reason) for (model, name, reason), count in counted.items()]
    return markdown_table(("model", "competitor", "cells", "why"), rows, numbers=("cells",)) if rows else ""


def worst_errors(cells: Iterable[Cell]) -> str:
    """Return the largest distance of each competitor's output from PyTorch's."""
    worst: dict[str, tuple[float, Cell]] = {}
    for cell in cells:
        for name, error in cell.errors.items():
            if name not in worst or error > worst[name][0]:
                worst[name] = error, cell
    rows = [
        (labelled(n), f"{error:.1e}", f"{c.name}, {c.tokens_text}") for n, (error, c) in worst.items() if n != "torch"
    ]
    return markdown_table(("competitor", "relative L2", "where"), rows, numbers=("relative L2",))


def layers(accuracy: Accuracy) -> str:
    """Return what 8 bits change in each layer."""
    rows = [(str(each.layer), f"{each.products:.2%}", f"{each.block:.2%}") for each in accuracy.layers]
    rows.append(("all", f"{accuracy.products:.2%}", f"{accuracy.block:.2%}"))
    headers = ("layer", "feed-forward alone", "with residual and norm")
    return markdown_table(headers, rows, numbers=headers)


def labelled(name: str) -> str:
    """Return a competitor's name, with its precision where that is another than float32."""
    return f"{name} ({OTHER_PRECISIONS[name]})" if name in OTHER_PRECISIONS else name


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g}"
