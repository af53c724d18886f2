"""Runs pytest in forks of a process that has imported the large libraries, and nothing of the package."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

LIBRARIES = (
    *("torch", "torch.onnx", "torch._inductor.utils", "transformers", "onnx", "onnx_ir", "onnxscript", "onnxruntime"),
    *("scipy.special", "rich.console", "hypothesis", "pytest", "cosmic_ray.ast", "cosmic_ray.operators.provider"),
)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(list(LIBRARIES))


class TimedOutError(Exception):
    """The tests took longer than they may."""


def run(
    folder: Path, arguments: Sequence[str], plugin: Callable[[], object], output: Path, seconds: float | None
) -> int:
    """Return the exit status of pytest in a folder; processes that tests started end with it.

    Raises:
        TimedOutError: If it takes longer than the seconds.
    """
    process = CONTEXT.Process(target=_run, args=(str(folder), arguments, plugin, str(output)))
    process.start()
    try:
        process.join(seconds)
        if process.exitcode is None:
            raise TimedOutError
        return process.exitcode
    finally:
        if process.exitcode is None and process.pid is not None:
            with suppress(ProcessLookupError):  # it has no group yet
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()


def _run(folder: str, arguments: Sequence[str], plugin: Callable[[], object], output: str) -> None:
    os.setsid()
    with Path(output).open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    for name in list(os.environ):
        if name.startswith(("COV_", "PYTEST_")) or name == "PYTHONDONTWRITEBYTECODE":
            del os.environ[name]
    sys.dont_write_bytecode = False  # a copy is compiled once
    os.environ["PYTHONPATH"] = folder
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.exit(pytest.main(list(arguments), plugins=[plugin()]))
