"""``ffn-export matrix``."""

from __future__ import annotations

from pathlib import Path

import click

from ffn_export.cli.help import Command
from ffn_export.cli.options import MOST_THREADS, PATH, Positive, Whole, common
from ffn_export.cli.state import State


@click.command(
    "matrix",
    short_help="Build, verify, time or tune many models.",
    cls=Command,
    page="docs/matrix.md",
    examples=("matrix zoo.toml", "matrix zoo.toml -o results --jobs 4 --memory 8", "matrix zoo.toml --ray auto"),
)
@click.argument("matrix", metavar="FILE", type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("matrix"),
    show_default=True,
    help="Where the bundles, cells.jsonl, index.html and junit.xml go.",
)
@click.option(
    "--jobs", type=Whole(1, MOST_THREADS), help="Processes. [default: one for each processor; one if anything is timed]"
)
@click.option(
    "--memory", type=Positive(), metavar="GB", help="Memory of each process. [default: its share of this machine]"
)
@click.option("--ray", metavar="ADDRESS", help="Do it on a Ray cluster: auto, or HOST:PORT of its head node.")
@common
@click.pass_obj
def command(
    state: State, /, matrix: Path, output: Path, jobs: int | None, memory: float | None, ray: str | None
) -> int:
    """Build, verify, time or tune each model of a TOML FILE for every target, precision and runtime.

    Cells that are done and unchanged are not done again. A cell that fails, or whose process crashes, is
    told, and the others go on. The exit status is that of the worst cell.
    """
    from rich.text import Text

    import ffn_export as fx
    from ffn_export.model_matrix.run import PAGE

    result = fx.matrix(
        matrix, output, jobs=jobs, memory=memory, ray=ray, progress=lambda line: state.console.print(Text(line))
    )
    state.console.print(Text(f"{result}; open {output / PAGE}"))
    return result.exit_status
