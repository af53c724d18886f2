"""Builds in processes of their own that are killed when they are about to change a file.

The processes are forked from one that has imported all libraries: to import them takes longer than a small build.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ffn_export as fx
from ffn_export.bundle.build import build_bundle  # noqa: F401 - with all that it imports

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
_CHANGES = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"})


def build(spec: str, directory: Path, kill_at: int | None = None) -> int | None:
    """Build a bundle in another process.

    Args:
        spec: The SPEC.
        directory: Where bundles go.
        kill_at: Change of a file below ``directory`` before which the process is killed; None means at none.

    Returns:
        The number of changes of files, or None if the process was killed.
    """
    here, there = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_build, args=(spec, directory, kill_at, there))
    process.start()
    there.close()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0
    changes: int = here.recv()
    return changes


def _build(spec: str, directory: Path, kill_at: int | None, told: Connection) -> None:
    changes = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if event not in _CHANGES or not str(arguments[0]).startswith(str(directory)):
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if changes == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        changes += 1

    sys.addaudithook(hook)
    fx.build(spec, directory=directory, fast=True)
    told.send(changes)
