"""The page of a comparison in short: three sentences, a chart, and ours over each other tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from textwrap import fill

from peers import tables
from peers.result import FLOAT32_PEERS, TORCH, Cell, Results

CHART = "summary.svg"
# What tells processors of one name apart, the most telling first.
_TELLING = {"amx_tile": "AMX", "avx_vnni": "AVX-VNNI", "avx512f": "AVX-512", "avx2": "AVX2"}
_READING = """A dot is the geometric mean over all measurements, a line reaches from the smallest ratio to the
largest. Left of 1 the fused model is faster. [All tables]({appendix}) has each measurement, the commands, the versions,
and how it was measured. `scripts/benchmark.py` makes both pages from `docs/{folder}.json`; do not edit.

"""
_NAMES = """
`ort` is the export as it is, with all of ONNX Runtime's own optimisations; `ours-again` the same file loaded a second
time, which shows the noise; `bare` the products alone. The other names are explained in the appendix.
"""


def title(results: Results) -> str:
    """Return the processor with its most telling instruction set."""
    found = (name for flag, name in _TELLING.items() if flag in results.instruction_sets.split(";")[0].split())
    processor = results.environment.processor.replace("(R)", "").removesuffix(" Processor")
    return " with ".join((processor, *list(found)[:1]))


def page(results: Results, folder: str, appendix: str) -> str:
    """Return the page.

    Args:
        results: What was measured.
        folder: Name of the directory of the plots, beside the page.
        appendix: Name of the page with all tables.
    """
    return "".join(_parts(results, folder, appendix))


def _parts(results: Results, folder: str, appendix: str) -> Iterator[str]:
    cells = [cell for cell in results.cells if cell.threads == 1]
    yield f"# {title(results)}\n\n"
    yield fill(" ".join(_sentences(cells)), 118) + "\n\n"
    yield f"![Time of ours over that of each other tool]({folder}/{CHART})\n\n"
    yield _READING.format(folder=folder, appendix=appendix)
    yield "## Feed-forward blocks, one thread\n\n" + tables.against_each(cells)
    whole = [cell for cell in results.whole if cell.threads == 1]
    if whole:
        models = ", ".join(dict.fromkeys(cell.model for cell in whole))
        yield f"\n## Whole models, one thread\n\n{models}.\n\n" + tables.against_each(whole)
    yield _NAMES


def _sentences(cells: Sequence[Cell]) -> Iterator[str]:
    tokens, blocks = sorted({cell.tokens for cell in cells}), len({cell.name for cell in cells})
    measured = f"{len(cells)} measurements: {blocks} blocks, {tokens[0]} to {tokens[-1]:,} tokens" if cells else "none"
    if (of_torch := _mean(cells, TORCH)) is not None:
        yield f"On one thread, a fused feed-forward block takes {of_torch:.2f} of eager PyTorch's time ({measured})."
    if (of_ort := _mean(cells, "ort")) is not None:
        faster, ties, slower = _counts(cells, "ort")
        yield f"It takes {of_ort:.2f} of the time of ONNX Runtime's own optimisations on the same export:"
        yield f"faster in {faster}, equal within the noise in {ties}, slower in {slower}."
    losses = {name: _counts(cells, name)[2] for name in FLOAT32_PEERS if _mean(cells, name) is not None}
    if losses and not any(losses.values()):
        yield "No other tool is faster in any of them."
    elif losses:
        name = max(losses, key=lambda each: losses[each])
        yield f"The tool that is most often faster is {name}, in {losses[name]} of {len(cells)};"
        yield f"over all of them ours takes {_mean(cells, name):.2f} of its time."


def _mean(cells: Sequence[Cell], name: str) -> float | None:
    values = [ratio.value for cell in cells if (ratio := cell.ratio(name)) is not None]
    return geometric_mean(values) if values else None


def _counts(cells: Sequence[Cell], name: str) -> tuple[int, int, int]:
    ratios = [ratio for cell in cells if (ratio := cell.ratio(name)) is not None]
    ties, slower = sum(ratio.is_tie for ratio in ratios), sum(ratio.low > 1 for ratio in ratios)
    return len(ratios) - ties - slower, ties, slower
