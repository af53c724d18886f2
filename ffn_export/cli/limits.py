"""Time and memory limits of a command that reads untrusted files.

A file of a few kilobytes can cause unlimited work. The limits grow with the size of the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from ffn_export.cli.options import LONGEST, Positive, several
from ffn_export.cli.state import State

_CPU_SECONDS_PER_BYTE = 2e-6
_DATA_BYTES_PER_BYTE = 20  # copies in several runtimes and precisions
_STACK_BYTES = 2**24  # stack of a thread and its share of the heap
_FOR_IMPORTS = 2**27  # libraries that are imported later


@dataclass(frozen=True)
class Work:
    """Work of a command, and what it may take for a small file.

    Attributes:
        cpu_seconds: CPU seconds, for each two processors.
        data_bytes: Bytes of memory.
        ends_runs: Whether a single run of the model is ended early, so that the command can report it.
    """

    cpu_seconds: float = 10.0
    data_bytes: int = 2**30
    ends_runs: bool = True


ON_FILES = Work()
WITH_A_MODULE = Work(120.0, 2**32, ends_runs=False)  # trusted by its user, and possibly slow even without weights
TIMING = Work(60.0, 2**32)
TUNING = Work(600.0, 2**32)  # it verifies and times some thirty choices


def _remember(ctx: click.Context, param: click.Parameter, value: float | None) -> None:
    setattr(ctx.ensure_object(State), str(param.name), value)


limit_options = several(  # :func:`hold` reads them from the state
    click.option(
        "--max-cpu",
        type=Positive(LONGEST),
        metavar="SECONDS",
        expose_value=False,
        callback=_remember,
        help="CPU time that the work may take. [default: by the size of the files]",
    ),
    click.option(
        "--max-memory",
        type=Positive(10.0**6, least=0.5),  # with less, libraries fail while they are loaded
        metavar="GB",
        expose_value=False,
        callback=_remember,
        help="Memory that the work may take. [default: by the size of the files]",
    ),
)


def hold(state: State, files: Iterable[Path], work: Work = ON_FILES) -> None:
    """Limit the time and memory of this process from here on, if another process supervises it.

    Args:
        state: State of the command line: the limits that the user allows, and whether the process is supervised.
        files: Files and bundles that the command reads.
        work: Work of the command.
    """
    if not state.supervised:
        return
    import resource  # Windows does not have it, and does not supervise processes

    from ffn_export.core.size_on_disk import size_on_disk
    from ffn_export.runtimes.ended_run import ALLOWED

    cpu, memory = state.max_cpu, state.max_memory
    size = sum(map(size_on_disk, files))
    if cpu is not None or work.ends_runs:
        # Leave time to report a run that does not end.
        ALLOWED.seconds = (cpu or ON_FILES.cpu_seconds) / 2
    processors = len(os.sched_getaffinity(0))
    if cpu is None:
        cpu = work.cpu_seconds * max(1, processors / 2) + size * _CPU_SECONDS_PER_BYTE
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu) + 1)
    data = work.data_bytes + size * _DATA_BYTES_PER_BYTE if memory is None else int(memory * 1e9)
    _lower(resource.RLIMIT_DATA, _data_now() + _FOR_IMPORTS + processors * _STACK_BYTES + data)


def _lower(which: int, bound: int) -> None:
    import resource

    soft, hard = resource.getrlimit(which)
    limits = [each for each in (soft, hard, bound) if each != resource.RLIM_INFINITY]
    resource.setrlimit(which, (min(limits), hard))


def _data_now() -> int:
    """Return the number of bytes that already count against ``RLIMIT_DATA``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)
