"""Drive the groups of a matrix through an engine, and find the cell that ends its process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from typing import Protocol

from ffn_export.core.matrix_cell import Cell
from ffn_export.model_matrix.entries import Entry
from ffn_export.model_matrix.plan import Group

Told = Callable[[Sequence[Cell]], None]


class WorkerDiedError(Exception):
    """The process of a step is gone; the message says why, as far as that is known."""


class Engine(Protocol):
    """Processes that do the steps of groups.

    Attributes:
        slots: Number of groups that are driven at the same time.
        tries: Number of processes that a cell may end before it is a failure.
    """

    slots: int
    tries: int

    def threads(self, entry: Entry, kind: str | None) -> int:
        """Return the intra-op threads of the cells of a model, on a kind of node or on any."""
        ...

    def check(self, groups: Sequence[Group]) -> None:
        """Check that all groups can be done, before any is.

        Raises:
            UsageError: If one cannot.
        """
        ...

    def run(self, group: Group) -> Iterator[Sequence[Cell]]:
        """Yield the cells of each step, in order.

        Raises:
            WorkerDiedError: If the process ends during the first step that has not been yielded.
        """
        ...

    def interrupt(self) -> None:
        """End all processes amid their work, and begin no more."""
        ...

    def rest(self) -> None:
        """End idle processes, while the threads that started them live."""
        ...

    def close(self) -> None:
        """Give back what the engine holds; nothing runs any more."""
        ...


def drive(groups: Sequence[Group], engine: Engine, told: Told) -> None:
    """Do all groups; ``told`` gets the cells of each step as they come.

    A step whose process ends is tried again, in a new process, as often as the engine allows. Before the last try, a
    step of several runtimes is divided, so that only the runtime that ends the process is lost.
    """
    stopped = threading.Event()

    def do(group: Group) -> None:
        left = [(step, engine.tries) for step in group]
        while left and not stopped.is_set():
            try:
                with closing(engine.run(tuple(step for step, _ in left))) as results:  # type: ignore[type-var]
                    for cells in results:
                        told(cells)
                        del left[0]
            except WorkerDiedError as error:
                if stopped.is_set():
                    return
                died, tries = left[0]
                if len(died.keys) > 1 and tries <= 2:
                    left[:1] = [(died.only([name]), 1) for name, _ in died.keys]
                elif tries > 1:
                    left[0] = died, tries - 1
                else:
                    del left[0]
                    times = f"{engine.tries} times: " if engine.tries > 1 else ""
                    # Without its key, a cell is tried again in the next run: memory may have been short.
                    told([replace(cell, key="") for cell in died.cells("failed", f"{times}{error}")])

    pool = ThreadPoolExecutor(engine.slots, "matrix")
    try:
        for done in as_completed([pool.submit(do, group) for group in groups]):
            done.result()
    except BaseException:  # an interrupt
        stopped.set()
        engine.interrupt()
        raise
    finally:
        engine.rest()
        pool.shutdown(cancel_futures=True)
