"""An engine of matrices whose steps are done in this process: a new one takes seconds to load PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from ffn_export.core.matrix_cell import Cell
from ffn_export.model_matrix.drive import WorkerDiedError
from ffn_export.model_matrix.entries import Entry
from ffn_export.model_matrix.plan import Group
from ffn_export.model_matrix.work import run_step


class Here:
    """Does steps in this process; one whose model is called ``killer`` ends it as often as it is asked for."""

    slots, tries = 1, 1
    done: ClassVar[list[str]] = []

    def __init__(self, directory: Path, jobs: int, threads: int, memory: int | None = None) -> None:
        self._directory = directory

    def run(self, group: Group) -> Iterator[Sequence[Cell]]:
        for step in group:
            Here.done.append(step.name)
            if step.entry.called == "killer" and "reference" in (step.runtimes or ()):
                raise WorkerDiedError("its process ended")
            yield run_step(step, self._directory, 1)

    def threads(self, entry: Entry, kind: str | None) -> int:
        return 1

    def check(self, groups: Sequence[Group]) -> None:
        pass

    def interrupt(self) -> None:
        pass

    def rest(self) -> None:
        pass

    def close(self) -> None:
        pass
