"""Runs architectures in worker processes: a library that takes its process down costs one architecture."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from corpus.result import Optimised, Result


def run_all(names: Sequence[str], jobs: int, with_peers: bool, graphs: Path | None = None) -> Iterator[Result]:
    """Run architectures by name, and give each result as it comes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of NumPy, in the workers
    unfinished: list[str] = []
    with _pool(jobs) as pool:
        running = {pool.submit(_run, name, with_peers, graphs): name for name in names}
        for done in as_completed(running):
            try:
                yield done.result()
            except BrokenProcessPool:
                unfinished.append(running[done])
    for name in unfinished:
        with _pool(1) as pool:
            try:
                yield pool.submit(_run, name, with_peers, graphs).result()
            except BrokenProcessPool:
                yield Result(name, ours=Optimised("crashed: the process died"))


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Spawned: torch's threads do not survive a fork.
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _run(name: str, with_peers: bool, graphs: Path | None) -> Result:
    from corpus.architectures import by_name
    from corpus.trial import run

    return run(by_name()[name], with_peers, graphs)
