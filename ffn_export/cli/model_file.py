"""Resolve the MODEL|BUNDLE argument of commands that run no model, and check output files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffn_export.cli.state import State
from ffn_export.errors import IntegrityError, UsageError
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from ffn_export.bundle.manifest import Manifest


def open_argument(path: Path) -> tuple[Path, Manifest | None]:
    """Return the ONNX file, and the manifest if the path is a bundle: of its graph for this machine.

    Raises:
        UsageError: If a directory is no bundle. This is bad input and not a failed quality gate.
    """
    if not path.is_dir():
        return path, None
    from ffn_export.bundle.manifest import read_manifest
    from ffn_export.core import processor

    try:
        graph = read_manifest(path).graph_for(processor.kind())
        return path / graph.file, graph.manifest
    except IntegrityError as error:
        raise UsageError(str(error)) from error


def check_output(path: Path) -> None:
    """Check, before any work is done, that an output file can be written.

    Directories that this makes are removed when the command ends with nothing in them. One that stays is named.

    Raises:
        UsageError: If the file cannot be written, or belongs to a bundle.
    """
    from ffn_export.bundle.manifest import refuse_file_of_bundle
    from ffn_export.core import onnx_file

    new = [directory for directory in path.parents if not directory.exists()]
    if new:
        click.get_current_context().call_on_close(lambda: _keep_used(new))
    onnx_file.check_writable(path)
    refuse_file_of_bundle(path)


def _keep_used(new: list[Path]) -> None:
    """Remove the directories that are empty, of which the innermost is first, and name the innermost that stays."""
    for directory in new:
        try:
            directory.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # it holds something
            if not click.get_current_context().ensure_object(State).quiet:
                say(f"ffn-export: made the directory {directory}")
            return
