"""Stored results: JSON files of ``verify`` and ``bench``, and the same results in a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ffn_export.core import plain_file
from ffn_export.core.plain_data import PlainData
from ffn_export.errors import UsageError
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.judging.result import ParityResult

PARITY, LATENCY = "parity.json", "latency.json"


Result = TypeVar("Result", bound=PlainData)


@dataclass(frozen=True)
class Stored:
    """Results read from a file or a bundle; None if it does not hold one."""

    parity: ParityResult | None = None
    latency: LatencyResult | None = None


def read(path: Path) -> Stored:
    """Read a result of ``verify --json`` or ``bench --json``, or both results from a bundle's directory.

    Raises:
        UsageError: If there is no result, or this version cannot read it.
    """
    if not path.is_dir():
        return _read_file(path)
    files = [path / name for name in (PARITY, LATENCY) if (path / name).is_file()]
    if not files:
        raise UsageError(f"{path} is no bundle: it has neither {PARITY} nor {LATENCY}")
    found = [_read_file(file) for file in files]
    return Stored(
        next((each.parity for each in found if each.parity), None),
        next((each.latency for each in found if each.latency), None),
    )


def _read_file(path: Path) -> Stored:
    data = plain_file.read_json(path)
    if isinstance(data, Mapping) and "cases" in data:
        return Stored(parity=parsed(path, data, ParityResult))
    if isinstance(data, Mapping) and "measurements" in data:
        return Stored(latency=parsed(path, data, LatencyResult))
    raise UsageError(f"{path} is no result of `ffn-export verify --json` or `ffn-export bench --json`")


def parsed(path: Path, data: Any, kind: type[Result]) -> Result:
    """Parse a result from the plain data of a file.

    Raises:
        UsageError: If the data is damaged, or of another version.
    """
    try:
        return kind.from_dict(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}; make it anew with this version") from error
    except (ValueError, AttributeError) as error:  # AttributeError: a list where an object belongs
        raise UsageError(f"{path} is damaged: {error}") from error
