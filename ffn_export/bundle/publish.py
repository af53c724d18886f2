"""Puts a finished directory in its place at once: a bundle is there whole, or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ffn_export.bundle.manifest import files_of
from ffn_export.errors import UsageError

_PREFIX = ".building-"
_LONGEST_NAME = 200  # bytes: file systems have 255, and a bundle in the making has a longer one


def place(directory: Path, name: str) -> Path:
    """Return where a bundle of a name goes: a folder of this directory, and no other.

    Raises:
        UsageError: If the name is none of a folder.
    """
    if not name.isprintable() or name in ("", ".", "..") or {"/", "\\"} & set(name):
        raise UsageError(
            f"{name!r} names no folder of {directory}: choose a --name without separators, and -o for where"
        )
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise UsageError(f"a bundle's name may have {_LONGEST_NAME} bytes, this has more: choose a shorter --name")
    return directory / name


def check_destination(destination: Path) -> None:
    """Refuse, before any work is done, a place that cannot be written or holds something else.

    Raises:
        UsageError: If the directory is not writable, or what is there is no bundle.
    """
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise UsageError(f"{destination} is in the way and is no bundle: remove it or choose another --name")
    if destination.is_dir() and any(destination.iterdir()):
        _check_replaceable(destination)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=_PREFIX, dir=destination.parent):
            pass
    except OSError as error:
        raise UsageError(f"cannot write to {destination.parent}: {error.strerror or error}") from error


def _check_replaceable(directory: Path) -> None:
    """Refuse a folder with anything in it that no build of ours has put there: it would be lost."""
    own = files_of(directory)
    if own is None:
        raise UsageError(f"{directory} is no bundle and is not replaced: remove it or choose another --name")
    there = (path.relative_to(directory).as_posix() for path in sorted(directory.rglob("*")) if not path.is_dir())
    other = next((name for name in there if name not in own and not name.rpartition("/")[2].startswith(".")), None)
    if other is not None:
        raise UsageError(f"{directory / other} is not the bundle's and would be lost: move it or choose another --name")


@dataclass(frozen=True)
class Stage:
    """A directory beside the destination, in which a bundle is made."""

    directory: Path
    destination: Path

    def publish(self) -> None:
        """Take the destination's place."""
        _swap(self.directory, self.destination)


@contextmanager
def staging(destination: Path) -> Iterator[Stage]:
    """Give a stage, gone afterwards unless it was published.

    Until then the old bundle stays, whatever happens. What a killed run left behind is cleared away
    by the next one.

    Raises:
        UsageError: If the file system refuses.
    """
    _clear_leftovers(destination)
    try:
        directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{destination.name}-{os.getpid()}-", dir=destination.parent))
    except OSError as error:
        raise UsageError(f"cannot write to {destination.parent}: {error.strerror or error}") from error
    try:
        yield Stage(directory, destination)
    except OSError as error:
        raise UsageError(f"cannot write to {destination.parent}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _swap(stage: Path, destination: Path) -> None:
    """Move the old bundle aside and the new one in; between the two there is none for a moment.

    Of several processes that publish into one place each finds what the one before it put there: the last one stays.
    """
    mask = os.umask(0)
    os.umask(mask)
    stage.chmod(0o777 & ~mask)  # mkdtemp's own permissions shut everybody else out
    aside: list[Path] = []
    try:
        while True:
            old = stage.with_name(f"{stage.name}_{len(aside)}.old")
            with suppress(FileNotFoundError):
                destination.rename(old)
                aside.append(old)
            try:
                stage.rename(destination)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    except BaseException:
        if aside and not destination.exists():
            aside.pop().rename(destination)
        raise
    finally:
        for old in aside:
            shutil.rmtree(old, ignore_errors=True)


def _clear_leftovers(destination: Path) -> None:
    """Remove staging directories of this bundle whose process is gone; what one had moved aside is put back."""
    own = re.compile(rf"{re.escape(_PREFIX + destination.name)}-(?P<pid>\d+)-[^-.]+(?P<old>\.old)?")
    for leftover in sorted(destination.parent.glob(f"{_PREFIX}*")):
        found = own.fullmatch(leftover.name)  # not that of another bundle, whose name begins with this one's
        if found is None or _alive(int(found["pid"])):
            continue
        if found["old"] and not destination.exists():
            leftover.rename(destination)
        else:
            shutil.rmtree(leftover, ignore_errors=True)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    if os.name == "nt":
        return True  # signal 0 is Ctrl-C there: a leftover stays for its user to remove
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
