"""Time and memory limits of a command that reads untrusted files.

A file of a few kilobytes can cause unlimited work. The limits grow with the size of the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from ffn_export.cli.options import Positive
from ffn_export.cli.state import State

Command = TypeVar("Command", bound=Callable[..., Any])

_CPU_SECONDS = 10.0
_CPU_SECONDS_WITH_A_MODULE = 120.0  # trusted by its user, and possibly slow even without weights
_CPU_SECONDS_PER_BYTE = 2e-6
_DATA_BYTES = 2**30
_DATA_BYTES_WITH_A_MODULE = 2**32
_DATA_BYTES_PER_BYTE = 20  # copies in several runtimes and precisions
_STACK_BYTES = 2**24  # stack of a thread and its share of the heap
_FOR_IMPORTS = 2**27  # libraries that are imported later


def limit_options(command: Command) -> Command:
    """``--max-cpu`` and ``--max-memory``."""
    for flag, unit, text in (
        ("--max-memory", "GB", "Memory that the work may take.  [default: 1, and 20 times the files' size]"),
        ("--max-cpu", "SECONDS", "CPU time that the work may take.  [default: 10, and 2 s for each MB of the files]"),
    ):
        command = click.option(flag, type=Positive(), metavar=unit, help=text)(command)
    return command


def hold(state: State, files: Iterable[Path], cpu: float | None, memory: float | None, *, module: bool = False) -> None:
    """Limit the time and memory of this process from here on, if another process supervises it.

    Args:
        state: State of the command line, which says whether the process is supervised.
        files: Files and bundles that the command reads.
        cpu: CPU seconds allowed by the user; None means a limit from the size of the files.
        memory: Memory allowed by the user, in GB; None means a limit from the size of the files.
        module: Whether the command also runs a PyTorch module, which its user trusts.
    """
    if not state.supervised:
        return
    import resource  # Windows does not have it, and does not supervise processes

    from ffn_export.core.size_on_disk import size_on_disk
    from ffn_export.runtimes.ended_run import ALLOWED

    size = sum(map(size_on_disk, files))
    if cpu is not None or not module:
        ALLOWED.seconds = (cpu or _CPU_SECONDS) / 2  # leave time to report a run that does not end
    processors = len(os.sched_getaffinity(0))
    if cpu is None:
        floor = _CPU_SECONDS_WITH_A_MODULE if module else _CPU_SECONDS
        cpu = floor * max(1, processors / 2) + size * _CPU_SECONDS_PER_BYTE
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu) + 1)
    data = int(memory * 1e9) if memory is not None else _DATA_BYTES_WITH_A_MODULE if module else _DATA_BYTES
    if memory is None:
        data += size * _DATA_BYTES_PER_BYTE
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
