"""Where a user's module raised an error."""

from __future__ import annotations

import traceback
from pathlib import Path, PurePath

import torch

import ffn_export
from ffn_export.core.one_line import root_cause

_NOT_THE_USERS = tuple(f"{Path(package.__path__[0])}/" for package in (torch, ffn_export))
_LONGEST = 100


def raised_at(error: BaseException) -> str:
    """Return `` (FILE, line N: CODE)`` for the innermost line that is neither PyTorch's nor ours, else nothing."""
    frames = [
        frame
        for frame in traceback.extract_tb(root_cause(error).__traceback__)
        if frame.line and not frame.filename.startswith(_NOT_THE_USERS)
    ]
    if not frames:
        return ""
    code = frames[-1].line or ""
    return f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno}: {code[:_LONGEST]})"
