"""Processes of this machine: one for each group at a time, which is used again for the next group."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ffn_export.core.matrix_cell import Cell
from ffn_export.core.parent_process import end_with
from ffn_export.errors import UsageError
from ffn_export.model_matrix.drive import WorkerDiedError
from ffn_export.model_matrix.entries import Entry
from ffn_export.model_matrix.plan import Group
from ffn_export.model_matrix.work import run_step

_CGROUP = Path("/sys/fs/cgroup/memory.max")


class Processes:
    """The engine for one machine.

    Args:
        directory: Directory of the results.
        jobs: Number of processes.
        threads: Intra-op threads of each.
        memory: Bytes that each may allocate; None means its share of the memory of this machine.
    """

    tries = 1  # the same machine would end it again

    def __init__(self, directory: Path, jobs: int, threads: int, memory: int | None = None) -> None:
        self.slots, self._directory, self._threads = jobs, directory, threads
        self._memory = memory or _memory() // jobs
        self._own = threading.local()  # each thread of the driver has a process
        self._pools: list[ProcessPoolExecutor] = []
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # NumPy's threads, in the processes

    def threads(self, entry: Entry, kind: str | None) -> int:
        """Return the threads of each process."""
        return self._threads

    def check(self, groups: Sequence[Group]) -> None:
        """Refuse what is for other machines.

        Raises:
            UsageError: If a model is for a kind of node of a cluster.
        """
        if kind := next((step.processor for group in groups for step in group if step.processor), None):
            raise UsageError(f"processors = [{kind!r}] names nodes of a Ray cluster: give its address with --ray")

    def run(self, group: Group) -> Iterator[Sequence[Cell]]:
        """Yield the cells of each step."""
        for step in group:
            try:
                cells = self._process().submit(run_step, step, self._directory, self._threads).result()
            except BrokenProcessPool as error:
                self._own.pool = None
                raise WorkerDiedError("its process ended: a library crashed, or there was no memory left") from error
            yield cells

    def _process(self) -> ProcessPoolExecutor:
        pool: ProcessPoolExecutor | None = getattr(self._own, "pool", None)
        if pool is None:
            # Spawned: torch's threads do not survive a fork.
            spawn = multiprocessing.get_context("spawn")
            pool = self._own.pool = ProcessPoolExecutor(1, spawn, _start, (os.getpid(), self._memory))
            self._pools.append(pool)
        return pool

    def interrupt(self) -> None:
        """End the processes amid their work."""
        for process in multiprocessing.active_children():
            process.terminate()

    def rest(self) -> None:
        """End the processes. The kernel would kill each with its thread, and its semaphores would be told as leaked."""
        while self._pools:
            self._pools.pop().shutdown(cancel_futures=True)

    def close(self) -> None:
        """End the processes that an interrupt left."""
        self.rest()


def _start(parent: int, memory: int) -> None:
    """Prepare a process: it ends with its parent, leaves Ctrl-C to it, and gets no more memory than its share."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory(memory)


def limit_memory(memory: int) -> None:
    """Let this process allocate this many bytes; on Windows, leave it as it is."""
    try:
        import resource
    except ImportError:  # Windows
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    bound = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))


def _memory() -> int:
    """Return the memory of this machine, or that of its container if it has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    try:
        return min(total, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return total
