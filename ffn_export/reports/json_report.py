"""Results as JSON files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffn_export.core.json_text import json_text
from ffn_export.reports.formats import Verification
from ffn_export.reports.text_file import write_text


def write_json(data: Mapping[str, Any], destination: Path | str) -> None:
    """Write a result's ``to_dict()`` to a path, or to standard output for ``-``.

    Raises:
        UsageError: If the path cannot be written to.
    """
    write_text(json_text(data), destination)


def verification_json(verification: Verification) -> str:
    """Return a verification as JSON, with its bisection if there is one."""
    data = verification.result.to_dict()
    if verification.bisection is not None:
        data["bisection"] = verification.bisection.to_dict()
    return json_text(data)
