"""All runtimes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.runtimes.base import Runtime
from ffn_export.runtimes.listed import LISTED, check_list


def _made(place: str) -> Runtime:
    found: Runtime | type[Runtime] = resolve_name(f"ffn_export.runtimes.{place}")
    return found() if isinstance(found, type) else found


RUNTIMES: Mapping[str, Runtime] = {name: _made(place) for name, place in LISTED.items()}


def get_runtimes(names: Sequence[str]) -> list[Runtime]:
    """Return the runtimes of these names.

    Raises:
        UsageError: A name is unknown, or ``names`` is no list.
    """
    check_list(names)
    return [get_runtime(name) for name in names]


def get_runtime(name: str) -> Runtime:
    """Return the runtime of this name.

    Raises:
        UsageError: The name is unknown.
    """
    if name not in RUNTIMES:
        raise UsageError(f"unknown runtime {name!r};{did_you_mean(name, RUNTIMES)} known are {', '.join(RUNTIMES)}")
    return RUNTIMES[name]
