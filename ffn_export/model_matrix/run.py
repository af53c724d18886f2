"""``matrix``: builds, verifies, times or tunes many models, each for every target, precision and runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffn_export.core.matrix_cell import Cell, exit_status
from ffn_export.core.types import Progress, silent
from ffn_export.errors import UsageError
from ffn_export.model_matrix.drive import Engine, drive
from ffn_export.model_matrix.entries import TIMED, Entry, read_matrix
from ffn_export.model_matrix.plan import Step, all_steps, is_done, joining, missing, step_name
from ffn_export.model_matrix.processes import Processes
from ffn_export.model_matrix.ray_cluster import RayCluster
from ffn_export.model_matrix.store import Cells
from ffn_export.reports.html.matrix_page import matrix_page
from ffn_export.reports.junit import junit_xml_of_cells
from ffn_export.reports.matrix import cell_line, summary_line
from ffn_export.reports.text_file import write_text
from ffn_export.runtimes.threads import available_threads

PAGE, JUNIT = "index.html", "junit.xml"


@dataclass(frozen=True)
class MatrixResult:
    """The result of a matrix.

    Attributes:
        directory: Directory of the bundles, of the cells (``cells.jsonl``), and of the reports.
        cells: Every cell, those of an earlier run included.
        seconds: Time of this run.

    Examples:
        >>> result = fx.matrix({"fast": True, "model": [{"spec": "d2l-ffn"}]}, "results")
        >>> [(cell.model, cell.target, cell.runtime, cell.verdict) for cell in result.cells]
        [('d2l-ffn', 'ort-cpu', 'ort-cpu', 'passed')]
    """

    directory: Path
    cells: tuple[Cell, ...]
    seconds: float

    @property
    def exit_status(self) -> int:
        """Exit status of the worst cell: a failed gate, then bad input, then a missing runtime."""
        return exit_status(self.cells)

    @property
    def passed(self) -> bool:
        """Whether every cell passed."""
        return self.exit_status == 0

    def __str__(self) -> str:
        """Return the summary in one line."""
        return summary_line(self.cells, self.seconds)


def matrix(
    matrix: Path | str | Mapping[str, Any],
    directory: Path | str = "matrix",
    *,
    jobs: int | None = None,
    memory: float | None = None,
    ray: str | None = None,
    progress: Progress = silent,
) -> MatrixResult:
    """Build, verify, time or tune many models, each for every target, precision and runtime.

    Cells that are done and unchanged are not done again. Whatever goes wrong with a cell, a crash of its process
    included, costs that cell.

    Args:
        matrix: A TOML file, or its content: see :class:`~ffn_export.model_matrix.entries.Entry` for its keys.
        directory: Directory of the bundles, ``cells.jsonl``, ``index.html`` and ``junit.xml``.
        jobs: Number of processes; None means one for each processor, and one if anything is timed.
        memory: Memory of each process in GB; None means its share of this machine.
        ray: Address of a Ray cluster that does the work, ``auto`` or ``HOST:PORT``; None means this machine.
        progress: Called with a line for each cell.

    Raises:
        UsageError: If the matrix is wrong, the directory cannot be written to, no cluster answers, or none of its
            nodes can hold a cell; nothing has been done then.
        MissingPackageError: If Ray is not installed.

    Examples:
        >>> zoo = {"targets": ["portable"], "runtimes": ["ort-cpu"], "fast": True, "model": [{"spec": "d2l-ffn"}]}
        >>> fx.matrix(zoo, "results").passed
        True
    """
    entries = read_matrix(matrix)
    count = [0]

    def told(cells: Sequence[Cell], planned: int) -> None:
        for cell in cells:
            count[0] += 1
            progress(f"[{count[0]}/{max(count[0], planned)}] {cell_line(cell)}")

    return run_matrix(entries, Path(directory), told, jobs=jobs, memory=memory, ray=ray, progress=progress)


def run_matrix(
    entries: Sequence[Entry],
    directory: Path,
    told: Callable[[Sequence[Cell], int], None],
    *,
    jobs: int | None = None,
    threads: int | None = None,
    memory: float | None = None,
    ray: str | None = None,
    progress: Progress = silent,
) -> MatrixResult:
    """Do the same for entries; ``told`` gets the cells as they come, and the number of those to do."""
    started = time.monotonic()
    limit = None if memory is None else int(memory * 1e9)
    if ray is not None:
        if jobs is not None:
            raise UsageError("--jobs counts processes of this machine: leave it out with --ray")
        engine: Engine = RayCluster(ray, directory, limit)
    else:
        is_timed = any(entry.action in TIMED for entry in entries)
        jobs = jobs or (1 if is_timed else available_threads())
        engine = Processes(directory, jobs, threads or max(1, available_threads() // jobs), limit)
    with closing(engine):
        cells = _run(entries, directory, engine, told, progress)
    return MatrixResult(directory, cells, time.monotonic() - started)


def _run(
    entries: Sequence[Entry],
    directory: Path,
    engine: Engine,
    told: Callable[[Sequence[Cell], int], None],
    progress: Progress,
) -> tuple[Cell, ...]:
    steps = all_steps(entries, engine.threads)
    planned = {key for step in (*steps, *joining(steps, directory)) for _, key in step.keys}
    store = Cells(directory, lambda cell: cell.key in planned and is_done(cell, directory))
    groups = missing(steps, store.cells, directory)
    engine.check(groups)
    count = sum(len(step.keys) for group in groups for step in group)
    if done := len(planned & {cell.key for cell in store.cells}):
        progress(f"{done} of {len(planned)} cells are done and unchanged")

    def keep(cells: Sequence[Cell]) -> None:
        store.add(cells)
        told(cells, count)

    joined: list[Step] = []
    try:
        drive(groups, engine, keep)
        joined = joining([step for step in steps if _is_built(step, store.cells)], directory)
        groups = missing(joined, store.cells, directory)
        count += len(groups)
        drive(groups, engine, keep)
    finally:  # an interrupted run leaves reports of what is done
        cells = tuple(_in_order(store.cells, [step.name for step in (*steps, *joined)]))
        write_text(matrix_page(cells), directory / PAGE)
        write_text(junit_xml_of_cells(cells), directory / JUNIT)
    return cells


def _is_built(step: Step, cells: Sequence[Cell]) -> bool:
    """Whether a step has written its bundle, in this run or an earlier one."""
    return any(cell.path == step.name and cell.key in dict(step.keys).values() for cell in cells)


def _in_order(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """Return cells in the order of the matrix."""
    place = {name: number for number, name in enumerate(names)}

    def of(cell: Cell) -> tuple[int, str]:
        by_name = (step_name(cell.model, cell.target, dtype, cell.processor) for dtype in (cell.dtype, ""))
        return next((place[name] for name in by_name if name in place), len(place)), cell.runtime

    return sorted(cells, key=of)
