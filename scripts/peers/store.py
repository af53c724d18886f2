"""Results in a JSON file: a line a cell, so that a difference between two runs can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ffn_export.errors import UsageError
from ffn_export.reports.text_file import write_text
from peers.result import SCHEMA, Results

_DIGITS = 5  # significant; the intervals are wider


def write(results: Results, path: Path) -> None:
    """Write results; a file that was there stays until they are all written.

    Raises:
        UsageError: If the path cannot be written to.
    """
    fields = [f"{json.dumps(name)}: {_lines(value)}" for name, value in results.to_dict().items()]
    write_text("{\n" + ",\n".join(fields) + "\n}\n", path)


def read(path: Path) -> Results:
    """Read results.

    Raises:
        UsageError: If there is no such file, or it holds something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}: run the benchmark first") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UsageError(f"{path} holds no results of this script ({SCHEMA}): run the benchmark again")
    return Results.from_dict(data)


def _lines(value: Any) -> str:
    if not isinstance(value, (list, tuple)) or not value or not isinstance(value[0], dict):
        return json.dumps(_rounded(value), allow_nan=False)
    return "[\n" + ",\n".join(json.dumps(_rounded(each), allow_nan=False) for each in value) + "\n]"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
