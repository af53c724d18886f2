"""The file of a matrix's cells, one a line: JSON Lines."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from ffn_export.core.json_text import json_line
from ffn_export.core.matrix_cell import Cell
from ffn_export.core.plain_file import not_writable

FILE = "cells.jsonl"


class Cells:
    """The file of the cells: read once, then one line is added for each cell, whole or not at all.

    Args:
        directory: Directory of the results.
        keep: Says which of the stored cells stay. Others, and a line that was cut off, are left out.

    Raises:
        UsageError: If the directory cannot be written to.
    """

    def __init__(self, directory: Path, keep: Callable[[Cell], bool]) -> None:
        self.path, self._lock = directory / FILE, threading.Lock()
        self.cells = [cell for cell in _stored(self.path) if keep(cell)]
        scratch = self.path.with_name(f".{FILE}-{os.getpid()}")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            scratch.write_text("".join(json_line(cell.to_dict()) for cell in self.cells))
            scratch.replace(self.path)
        except OSError as error:
            raise not_writable(directory, error) from error

    def add(self, cells: Collection[Cell]) -> None:
        """Add cells, in one write."""
        with self._lock:
            self.cells += cells
            with self.path.open("a") as file:
                file.write("".join(json_line(cell.to_dict()) for cell in cells))


def _stored(path: Path) -> list[Cell]:
    cells = []
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        try:
            cells.append(Cell.from_dict(json.loads(line)))
        except (ValueError, AttributeError):  # cut off when its process was killed, or of another version
            continue
    return cells
