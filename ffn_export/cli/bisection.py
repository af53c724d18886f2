"""``--bisect`` and ``--reduce`` of ``verify``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ffn_export.cli.options import PATH, several
from ffn_export.cli.state import State
from ffn_export.errors import UsageError

if TYPE_CHECKING:
    from ffn_export.parity.bisection.result import Bisection
    from ffn_export.parity.judging.result import ParityResult

bisection_options = several(
    click.option("--bisect", is_flag=True, help="Say which node is wrong: each one alone, on the reference's numbers."),
    click.option(
        "--reduce",
        "reduce_to",
        type=PATH,
        metavar="DIR",
        help="Write the smallest part that fails, with its inputs, to DIR; bisects as well.",
    ),
)


def check_bisection_options(bisect: bool, reduce_to: Path | None, rejudge: str | None) -> None:
    """Check the options of the bisection before any work is done.

    Raises:
        UsageError: If ``--rejudge`` is given too, or the directory of ``--reduce`` cannot be written.
    """
    if rejudge is not None and (bisect or reduce_to is not None):
        raise UsageError("--rejudge runs nothing, so there is nothing to --bisect or --reduce: leave one of both out")
    if reduce_to is not None:
        from ffn_export.bundle.reduced import check_destination

        check_destination(reduce_to)


def bisect_and_show(
    state: State, model: Path, against: str | None, result: ParityResult, reduce_to: Path | None, **named: Any
) -> Bisection:
    """Bisect a verified model and print the result.

    Args:
        state: State of the command line.
        model: Model argument of ``verify``.
        against: Reference argument of ``verify``.
        result: Result of ``verify``.
        reduce_to: Directory for the smallest part that fails.
        named: Further arguments of :func:`ffn_export.bisect`.
    """
    from rich.console import Group

    import ffn_export as fx
    from ffn_export.reports.console import Lines
    from ffn_export.reports.tables import bisection_table

    with state.progress() as report:
        found = fx.bisect(model, against, result=result, reduce_to=reduce_to, progress=report, **named)
    state.console.print(bisection_table(found))
    if reduce_to is not None:
        told = _what_to_run(reduce_to) if found.reduced_nodes else ["nothing to reduce"]
        state.console.print(Group(*map(Lines, told)))
    return found


def _what_to_run(directory: Path) -> list[str]:
    """Return the command in lines that a shell takes for one, which fit the console if each word does."""
    from ffn_export.reports.console import MOST_COLUMNS

    model, reference, data = (str(directory / name) for name in ("model.onnx", "reference.onnx", "test_data_set_0"))
    words = ["verify", model, "--against", reference, "--load-inputs", data]
    lines = ["reduced: ffn-export"]
    for word in map(shlex.quote, words):
        if len(f"{lines[-1]} {word} \\") > MOST_COLUMNS:
            lines[-1] += " \\"
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return lines
