"""The table of blocks: presets, widths, threads and tokens, a group at a time."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from peers.cells import Effort, measure, ratio_text
from peers.competitors import Loaded
from peers.result import ORT_PEERS, OURS, Cell, Results
from peers.subject import Subject, block_subject

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Table:
    """What is measured.

    Attributes:
        presets: Keys of ``shapes.STRUCTURES``.
        widths: ``d_model`` and ``d_ff``.
        threads: Numbers of intra-op threads.
        tokens: Lengths of the one sequence.
        competitors: Names.
        effort: How long each is timed.
    """

    presets: Sequence[str]
    widths: Sequence[tuple[int, int]]
    threads: Sequence[int]
    tokens: Sequence[int]
    competitors: Sequence[str]
    effort: Effort

    def missing(self, results: Results) -> dict[tuple[str, tuple[int, int], int], list[int]]:
        """Return (preset, widths, threads) -> the tokens that there are no results for yet."""
        there = {(cell.model, cell.widths, cell.threads, cell.tokens) for cell in results.cells}
        groups = {
            (preset, widths, threads): [n for n in self.tokens if (preset, widths, threads, n) not in there]
            for preset in self.presets
            for widths in self.widths
            for threads in self.threads
        }
        return {group: tokens for group, tokens in groups.items() if tokens}


def measured(table: Table, results: Results, progress: Progress) -> Iterator[list[Cell]]:
    """Give the cells of each group that is missing; its sessions are gone before those of the next are made."""
    missing = table.missing(results)
    count, done = sum(map(len, missing.values())), 0
    for preset, widths in dict.fromkeys((preset, widths) for preset, widths, _ in missing):
        with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as scratch:
            subject = block_subject(preset, widths, tuple(table.tokens), Path(scratch))
            for threads in table.threads:
                tokens = missing.get((preset, widths, threads), [])
                cells = []
                for cell in group(subject, threads, tokens, table.competitors, table.effort):
                    done += 1
                    progress(f"[{done}/{count}] {line(cell)}")
                    cells.append(cell)
                if cells:
                    yield cells


def group(
    subject: Subject, threads: int, tokens: Sequence[int], competitors: Sequence[str], effort: Effort
) -> Iterator[Cell]:
    """Load the competitors once, and give a cell for each number of tokens."""
    if not tokens:
        return
    loaded = Loaded(subject, competitors, threads)
    for count in tokens:
        yield measure(loaded, count, effort)
    del loaded
    torch._dynamo.reset()
    gc.collect()


def line(cell: Cell) -> str:
    """Return a cell as one line of progress."""
    timing = cell.timing(OURS)
    told = "ours was not timed" if timing is None else f"ours {timing.median * 1e3:.3f} ms"
    against = [f"{name} {ratio_text(ratio)}" for name in ORT_PEERS if (ratio := cell.ratio(name)) is not None]
    return f"{cell.name}, {threads_text(cell.threads)}, {cell.tokens_text}: {told}; {'; '.join(against)}"


def threads_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
