"""Runs architectures in worker processes: a library that takes its process down costs one architecture."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from corpus.architectures import by_name
from corpus.entry import Architecture

_Result = TypeVar("_Result")


def run_all(
    names: Sequence[str],
    jobs: int,
    run: Callable[[Architecture], _Result],
    crashed: Callable[[str], _Result],
) -> Iterator[_Result]:
    """Run architectures by name, and give each result as it comes.

    Args:
        names: The names.
        jobs: Number of processes.
        run: Runs one; it is sent to the processes.
        crashed: Makes the result of one whose process died, from its name.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of NumPy, in the workers
    unfinished: list[str] = []
    with _pool(jobs) as pool:
        running = {pool.submit(_run, run, name): name for name in names}
        for done in as_completed(running):
            try:
                yield done.result()
            except BrokenProcessPool:
                unfinished.append(running[done])
    for name in unfinished:
        with _pool(1) as pool:
            try:
                yield pool.submit(_run, run, name).result()
            except BrokenProcessPool:
                yield crashed(name)


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Spawned: torch's threads do not survive a fork.
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _run(run: Callable[[Architecture], _Result], name: str) -> _Result:
    return run(by_name()[name])
