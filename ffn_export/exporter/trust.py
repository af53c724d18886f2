"""Decide whether a SPEC may be imported or opened; every command checks here first.

Importing a module runs code. So does opening a ``.pt2`` file, which holds pickled inputs and evaluated expressions. A
user who types ``my.models:encoder`` means their own code, but a file that names it may come from anybody.
"""

from __future__ import annotations

import logging

from ffn_export.core.plain_text import visible
from ffn_export.errors import UsageError
from ffn_export.modules.presets import PRESETS

EXPORTED_PROGRAM = ".pt2"

_log = logging.getLogger(__name__)


def check(spec: str, *, trust: bool, named_by: str | None = None) -> None:
    """Refuse a SPEC that would run code, or read another directory, without the user's trust.

    A preset is always allowed: it is code of this package, found in a table.

    Args:
        spec: The SPEC.
        trust: Whether the user trusts it.
        named_by: File that names the SPEC; None if the user does. With ``trust``, a warning is logged that says what
            will be imported.

    Raises:
        UsageError: If trust is needed and not given.
    """
    if spec in PRESETS:
        return
    if named_by is not None:
        if not trust:
            raise UsageError(
                f"{named_by} names {spec!r} as its source, and nothing that a file names is imported: add --trust "
                "if you trust it"
            )
        _log.warning("trusting %s: importing %s", visible(named_by), visible(spec))
    elif spec.endswith(EXPORTED_PROGRAM) and not trust:
        raise UsageError(
            f"{spec} can run code when it is opened, as every {EXPORTED_PROGRAM} file can: add --trust if "
            "you trust where it comes from"
        )
