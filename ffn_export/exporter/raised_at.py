"""Where a user's module raised an error."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path, PurePath

import torch

import ffn_export
from ffn_export.core.one_line import root_cause

_NOT_THE_USERS = tuple(f"{Path(package.__path__[0])}/" for package in (torch, ffn_export))
_STANDARD, _INSTALLED = (f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib"))
_LONGEST = 100


def raised_at(error: BaseException) -> str:
    """Return `` (FILE, line N: CODE)`` for the innermost line that the user can change, else nothing.

    Lines of PyTorch, of the standard library and of this package do not count. Those of other libraries do, such as
    the models of transformers.
    """
    traced = traceback.extract_tb(root_cause(error).__traceback__)
    frames = [frame for frame in traced if frame.line and _is_the_users(frame.filename)]
    if not frames:
        return ""
    code = frames[-1].line or ""
    return f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno}: {code[:_LONGEST]})"


def _is_the_users(file: str) -> bool:
    if file.startswith(_NOT_THE_USERS):
        return False
    return not file.startswith(_STANDARD) or file.startswith(_INSTALLED)
