"""Verify every bundle of a folder again: against its preset, else its test vectors; with --trust, its source.

Exit status: 0 all passed, with warnings or without; 1 one failed; 2 bad usage, or the folder holds no
bundle; 3 a runtime that was named is not available here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import ffn_export as fx
from command_line import count
from ffn_export.bundle.folder import bundles_in
from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.console import stdout_console
from ffn_export.reports.junit import junit_xml_of_many
from ffn_export.reports.streams import say
from ffn_export.reports.tables import parity_summary_table
from ffn_export.reports.text_file import write_text


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    bundles = bundles_in(options.folder)
    if not bundles:
        say(f"verify_parity: {options.folder} holds no bundle; `make demo` builds one")
        return 2
    results: dict[str, ParityResult | str] = {}
    try:
        for number, bundle in enumerate(bundles, 1):
            say(f"[{number}/{len(bundles)}] verifying {bundle.name}")
            results[bundle.name] = _verified(bundle, options.runtime, options.threads, trust=options.trust)
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
    parser.add_argument("--threads", type=count, metavar="N", help="intra-op threads [the processors of this process]")
    parser.add_argument("--trust", action="store_true", help="import the sources that bundles name, which runs code")
    return parser


def _verified(bundle: Path, runtimes: Sequence[str] | None, threads: int | None, *, trust: bool) -> ParityResult | str:
    """Return the verification, or why there is none: a damaged bundle is a failed one."""
    try:
        return fx.verify(bundle, runtimes=runtimes, threads=threads, trust=trust)
    except RuntimeUnavailableError:
        raise
    except FfnExportError as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
