"""Work in processes of their own: what ends one of them costs its own results alone."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TIME_WAS_UP = "the time was up"


def in_a_process(target: Callable[..., None], arguments: Sequence[Any], deadline: float) -> str | None:
    """Run a function in a fresh process and return what ended it before its time, or None."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=tuple(arguments))
    process.start()
    process.join(max(0.0, deadline - time.monotonic()))
    if process.is_alive():
        process.kill()
        process.join()
        return TIME_WAS_UP
    return f"its process ended with status {process.exitcode}" if process.exitcode else None


def read(path: Path) -> list[dict[str, Any]]:
    """Read the lines that a process wrote; the last one may be cut where it was killed."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def write(path: Path, record: Mapping[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
