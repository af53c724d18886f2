"""Drive the groups of a matrix through an engine, and find the cell that a lost process died of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from typing import Protocol

from ffn_export.core.matrix_cell import Cell
from ffn_export.model_matrix.plan import Group

Told = Callable[[Sequence[Cell]], None]


class WorkerDiedError(Exception):
    """The process of a step is gone; the message says why, as far as that is known."""


class Engine(Protocol):
    """Processes that do the steps of groups.

    Attributes:
        slots: Number of groups that are driven at the same time.
        tries: Number of processes that a step may end before it is a failure.
    """

    slots: int
    tries: int

    def run(self, group: Group) -> Iterator[Sequence[Cell]]:
        """Yield the cells of each step, in order.

        Raises:
            WorkerDiedError: If the process ends during the first step that has not been yielded.
        """
        ...

    def stop(self, *, at_once: bool) -> None:
        """End all processes, also amid their work if ``at_once``."""
        ...


def drive(groups: Sequence[Group], engine: Engine, told: Told) -> None:
    """Do all groups; ``told`` gets the cells of each step as they come.

    A step whose process ends is tried again, in a new process, as often as the engine allows. A step of several
    runtimes is then divided, so that only the runtime that ends the process is lost.
    """
    stopped = threading.Event()

    def do(group: Group) -> None:
        left, deaths = list(group.steps), 0
        while left and not stopped.is_set():
            try:
                with closing(engine.run(Group(tuple(left)))) as results:  # type: ignore[type-var]
                    for cells in results:
                        told(cells)
                        del left[0]
                        deaths = 0
            except WorkerDiedError as error:
                if stopped.is_set():
                    return
                deaths += 1
                if deaths < engine.tries:
                    continue
                died, deaths = left[0], 0
                if len(died.keys) > 1:
                    left[:1] = [died.only([name]) for name, _ in died.keys]
                else:
                    del left[0]
                    told([_lost(cell) for cell in died.cells("failed", str(error))])

    pool = ThreadPoolExecutor(engine.slots, "matrix")
    try:
        for done in as_completed([pool.submit(do, group) for group in groups]):
            done.result()
    except BaseException:  # an interrupt
        stopped.set()
        engine.stop(at_once=True)
        raise
    else:
        engine.stop(at_once=False)
    finally:
        pool.shutdown(cancel_futures=True)


def _lost(cell: Cell) -> Cell:
    """Return the cell without its key, so that it is tried again in the next run: memory may have been short."""
    return Cell.from_dict({**cell.to_dict(), "key": ""})
