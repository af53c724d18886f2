"""Results that were stored: what ``verify`` and ``bench`` wrote as JSON, and both of a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ffn_export.errors import UsageError
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.result import ParityResult

PARITY, LATENCY = "parity.json", "latency.json"
Result = TypeVar("Result")


@dataclass(frozen=True)
class Stored:
    """What a file or a bundle holds."""

    parity: ParityResult | None = None
    latency: LatencyResult | None = None


def read(path: Path) -> Stored:
    """Read a result of ``verify --json`` or ``bench --json``, or both of a bundle's directory.

    Raises:
        UsageError: If there is none, or it is none that this version reads.
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
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # the latter of what is nested deeper than any result
        raise UsageError(f"{path} is no JSON: {error}") from error
    if isinstance(data, Mapping) and "cases" in data:
        return Stored(parity=_parsed(path, data, ParityResult.from_dict))
    if isinstance(data, Mapping) and "measurements" in data:
        return Stored(latency=_parsed(path, data, LatencyResult.from_dict))
    raise UsageError(f"{path} is no result of `ffn-export verify --json` or `ffn-export bench --json`")


def _parsed(path: Path, data: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], Result]) -> Result:
    try:
        return parse(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}; make it anew with this version") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}") from error
