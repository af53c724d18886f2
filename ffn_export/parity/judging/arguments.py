"""Types of the arguments of a verification. Light: the pytest plugin checks those of its marker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ffn_export.errors import UsageError
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.listed import check_list

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "tolerances": ((Tolerances,), "are Tolerances, such as Tolerances(relative_l2=0.02)"),
    "failures": ((str, os.PathLike), "is the path of a directory"),
    "save_outputs": ((str, os.PathLike), "is the path of a directory"),
}


def check_arguments(given: Mapping[str, Any]) -> None:
    """Check the types of the arguments, of which None stands for the default.

    Raises:
        UsageError: On the first of a wrong type.
    """
    if given.get("runtimes") is not None:
        check_list(given["runtimes"])
    for name, (types, what) in _TYPES.items():
        if given.get(name) is not None and not isinstance(given[name], types):
            raise UsageError(f"{name} {what}, got {given[name]!r}")
