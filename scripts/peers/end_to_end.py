"""Whole models beside the same competitors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from corpus.peers import silent
from peers.blocks import group, line
from peers.cells import Effort
from peers.result import BARE, Cell, Results
from peers.whole_models import whole_subject

TOKENS = (16, 128, 512)


def measured(
    model: str,
    threads: Sequence[int],
    tokens: Sequence[int],
    competitors: Sequence[str],
    effort: Effort,
    results: Results,
    progress: Callable[[str], None],
) -> Iterator[list[Cell]]:
    """Give the cells of a model that are missing, those of a number of threads at a time.

    Raises:
        UsageError: If the model is not here.
    """
    there = {(cell.model, cell.threads, cell.tokens) for cell in results.whole}
    wanted = {n: [count for count in tokens if (model, n, count) not in there] for n in threads}
    if not any(wanted.values()):
        return
    progress(f"exporting {model}")
    names = [name for name in competitors if name != BARE]
    with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as scratch:
        with silent():
            subject = whole_subject(model, tuple(tokens), Path(scratch))
        for number, counts in wanted.items():
            cells = []
            for cell in group(subject, number, counts, names, effort):
                progress(line(cell))
                cells.append(cell)
            if cells:
                yield cells
