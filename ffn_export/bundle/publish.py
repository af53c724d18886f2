"""Publish a finished directory atomically, so that a bundle is complete or absent."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ffn_export.bundle.locked_directory import locked_directory, one_at_a_time, taken_over
from ffn_export.bundle.manifest import files_of
from ffn_export.bundle.swap import move_into_place
from ffn_export.core.plain_file import not_writable
from ffn_export.errors import UsageError

Check = Callable[[Path], None]

_PREFIX = ".building-"
_NEW, _OLD = "new", "old"  # subdirectories of a stage: the new bundle, and the old one that was moved aside
_OF_FILE_MANAGERS = frozenset({".DS_Store", "Thumbs.db"})  # written by file managers, not by a user
_LONGEST_NAME = 200  # bytes: file systems allow 255, and the name of a stage is longer


def place(directory: Path, name: str) -> Path:
    """Return the directory of a bundle, directly below ``directory``.

    Raises:
        UsageError: If the name is not a valid folder name, or is too long.
    """
    if not name.isprintable() or name in ("", ".", "..") or {"/", "\\"} & set(name):
        raise UsageError(
            f"{name!r} names no folder of {directory}: choose a --name without separators, and -o for where"
        )
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise UsageError(f"a bundle's name may have {_LONGEST_NAME} bytes, this has more: choose a shorter --name")
    return directory / name


def check_destination(destination: Path) -> None:
    """Check, before any work is done, that a bundle can be written to a destination.

    Raises:
        UsageError: If the parent directory is not writable, or the destination exists and is no bundle.
    """
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise UsageError(f"{destination} is in the way and is no bundle: remove it or choose another --name")
    check_replaceable(destination)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(prefix=_PREFIX, dir=destination.parent):  # without a name, if it is killed here
            pass
    except OSError as error:
        raise not_writable(destination.parent, error) from error


def check_replaceable(directory: Path) -> None:
    """Refuse to replace a folder that holds a file, hidden or not, that no build has written."""
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    own = files_of(directory)
    if own is None:
        raise UsageError(f"{directory} is no bundle and is not replaced: remove it or choose another --name")
    files = (path for path in sorted(directory.rglob("*")) if path.is_symlink() or not path.is_dir())
    other = next((p for p in files if p.relative_to(directory).as_posix() not in own | _OF_FILE_MANAGERS), None)
    if other is not None:
        raise UsageError(f"{other} is not the bundle's and would be lost: move it or choose another --name")


@dataclass(frozen=True)
class Stage:
    """A directory beside the destination, in which a bundle is built.

    Attributes:
        directory: Directory of the new bundle.
        destination: Destination of the bundle.
        aside: Temporary place of the old bundle on file systems that cannot exchange two directories.
        check: Raises ``UsageError`` for a directory that must not be replaced.
    """

    directory: Path
    destination: Path
    aside: Path
    check: Check

    def publish(self) -> None:
        """Move the new bundle to the destination; an old bundle is removed with the stage.

        Raises:
            UsageError: If the destination meanwhile holds a file that would be lost.
        """
        with one_at_a_time(self.destination.parent):  # a half-moved bundle would fail the check
            self.check(self.destination)
            move_into_place(self.directory, self.destination, self.aside)


@contextmanager
def staging(destination: Path, check: Check = check_replaceable) -> Iterator[Stage]:
    """Yield a stage, which is removed on exit; publish it to keep the bundle.

    The old bundle stays in place until then, whatever happens. The next run removes the leftovers of a killed run.

    Args:
        destination: Directory of the bundle.
        check: Raises ``UsageError`` for a directory that must not be replaced.

    Raises:
        UsageError: If the destination cannot be written.
    """
    _clear_leftovers(destination)
    try:
        with locked_directory(f"{_PREFIX}{destination.name}-", destination.parent) as own:
            directory = own / _NEW
            directory.mkdir()
            yield Stage(directory, destination, own / _OLD, check)
    except OSError as error:
        raise not_writable(destination.parent, error) from error


def _clear_leftovers(destination: Path) -> None:
    """Remove the stages of this bundle whose process is gone; restore an old bundle that one had moved aside."""
    own = re.compile(rf"{re.escape(_PREFIX + destination.name)}-\w+")
    for leftover in sorted(destination.parent.glob(f"{_PREFIX}*")):
        if own.fullmatch(leftover.name) is None:  # the stage of another bundle, whose name starts with this one
            continue
        with taken_over(leftover) as is_dead:
            if not is_dead:
                continue
            old = leftover / _OLD
            if old.is_dir() and not destination.exists():
                with suppress(OSError):  # another process has published meanwhile
                    old.rename(destination)
            shutil.rmtree(leftover, ignore_errors=True)
