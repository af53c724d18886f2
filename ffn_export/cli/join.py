"""``ffn-export join``."""

from __future__ import annotations

from pathlib import Path

import click

from ffn_export.cli.help import Command
from ffn_export.cli.options import PATH, common, fast_option, runtime_option, threads_option, trust_option
from ffn_export.cli.state import State


@click.command(
    "join",
    short_help="Join bundles for several kinds of processor.",
    cls=Command,
    page="docs/tune.md",
    examples=(
        "join on-amd/bert-ffn on-intel/bert-ffn -o exported/bert-ffn",
        "join a b c -o joined --fast",
        "join a b -o a --trust",
    ),
)
@click.argument("bundles", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, required=True, metavar="DIR", help="The joined bundle.")
@fast_option
@runtime_option
@threads_option
@trust_option
@common
@click.pass_obj
def command(
    state: State,
    /,
    bundles: tuple[Path, ...],
    output: Path,
    fast: bool,
    runtimes: tuple[str, ...] | None,
    threads: int | None,
    trust: bool,
) -> int:
    """Join BUNDLES of one model that were built on different kinds of processor.

    The joined bundle has the graph of each, and their weights once. Loading it takes the graph for the
    machine that it is on, or else that of the first bundle. Each graph is verified here before it is written.
    """
    import ffn_export as fx
    from ffn_export.cli.model_file import open_argument
    from ffn_export.reports.tables import parity_summary_table

    for bundle in bundles:
        open_argument(bundle)
    with state.progress() as report:
        verified = fx.join(bundles, output, runtimes=runtimes, threads=threads, fast=fast, trust=trust, progress=report)
    state.console.print(parity_summary_table(verified))
    return 0
