"""Verify every bundle of a folder again: against its preset, else its test vectors; with --trust, its source.

Exit status: 0 all passed, with warnings or without; 1 one failed; 2 bad usage, or the folder holds no
bundle; 3 a runtime that was named is not available here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from command_line import count
from ffn_export.bundle import stored
from ffn_export.bundle.manifest import MANIFEST
from ffn_export.core.matrix_cell import Cell
from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.model_matrix.entries import Entry
from ffn_export.model_matrix.run import run_matrix
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.console import stdout_console
from ffn_export.reports.junit import junit_xml_of_many
from ffn_export.reports.streams import say
from ffn_export.reports.tables import parity_summary_table
from ffn_export.reports.text_file import write_text
from ffn_export.runtimes.registry import get_runtimes
from ffn_export.runtimes.threads import available_threads


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    bundles = _bundles_in(options.folder)
    if not bundles:
        say(f"verify_parity: {options.folder} holds no bundle; `make demo` builds one")
        return 2
    try:
        results = _verified(bundles, options.runtime or (), options.threads, trust=options.trust)
        if options.junit is not None:
            write_text(junit_xml_of_many(results), options.junit)
    except FfnExportError as error:
        say(f"verify_parity: {error}")
        return error.exit_status
    if options.junit != "-":
        stdout_console().print(parity_summary_table(results))
    failed = sum(isinstance(result, str) or not result.passed for result in results.values())
    warned = sum(not isinstance(result, str) and result.passed and bool(result.warnings) for result in results.values())
    of_them = f" ({warned} of them warned)" if warned else ""
    say(f"{len(results) - failed} passed{of_them}, {failed} failed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/verify_parity.py exported --junit parity.xml",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path("exported"), help="folder of bundles [exported]")
    parser.add_argument("--junit", metavar="FILE", help="one JUnit file for all; - for standard output")
    parser.add_argument("--runtime", action="append", metavar="NAME", help="a runtime that must judge; once for each")
    parser.add_argument("--threads", type=count, metavar="N", help="intra-op threads of a process [1]")
    parser.add_argument("--trust", action="store_true", help="import the sources that bundles name, which runs code")
    return parser


def _bundles_in(folder: Path) -> list[Path]:
    """Return the bundles of a folder, sorted by name, without those that are being built."""
    manifests = sorted(folder.glob(f"*/{MANIFEST}"))
    return [manifest.parent for manifest in manifests if not manifest.parent.name.startswith(".")]


def _verified(
    bundles: Sequence[Path], runtimes: Sequence[str], threads: int | None, *, trust: bool
) -> dict[str, ParityResult | str]:
    """Return the verification of each bundle, or why there is none: a damaged bundle is a failed one.

    Raises:
        RuntimeUnavailableError: If a runtime that was named is not available here.
    """
    get_runtimes(runtimes)
    entries = [Entry(str(path), path.name, "verify", runtimes=tuple(runtimes), trust=trust) for path in bundles]
    done: set[str] = set()

    def told(cells: Sequence[Cell], planned: int) -> None:
        for cell in cells:
            if cell.verdict == "unavailable":
                raise RuntimeUnavailableError(cell.message)
            if cell.model not in done:
                done.add(cell.model)
                say(f"[{len(done)}/{len(bundles)}] {cell.verdict} {cell.model}")

    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        jobs = None if threads is None else max(1, available_threads() // threads)
        result = run_matrix(entries, Path(scratch), told, jobs=jobs, threads=threads)
        found: dict[str, ParityResult | str] = {}
        for cell in result.cells:
            parity = None if cell.path is None else stored.read(Path(scratch) / cell.path).parity
            found[cell.model] = parity or cell.message
    return found


if __name__ == "__main__":
    sys.exit(main())
