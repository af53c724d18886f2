"""Options shared by several commands, and the parsing of their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from ffn_export.cli.state import State
from ffn_export.core.checked_numbers import LARGEST_SEED
from ffn_export.runtimes.listed import LISTED

Command = TypeVar("Command", bound=Callable[..., Any])

# Written out, because fusion is not imported for a help text. A test compares them.
TARGET_NAMES = "portable|ort|ort-cpu|ort-native|ort-cuda"

LARGEST_SIZE = 2**31 - 1  # of an axis
LONGEST = 10.0**9  # seconds
MOST_THREADS = 2**16  # of any machine; fewer of this one


class _Path(click.Path):
    """A path, which is not empty: an unset variable of a shell would stand for the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Path(path_type=Path)


class Whole(click.IntRange):
    """A whole number within bounds, which click's messages and help call an integer range."""

    name = "number"

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)


class Positive(click.FloatRange):
    """A finite number above 0. Click's range accepts NaN, with which no comparison of a quality gate would fail."""

    name = "number"

    def __init__(self, most: float | None = None, least: float = 0.0) -> None:
        super().__init__(least, most, min_open=least == 0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Reject NaN and infinity."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


def common(command: Command) -> Command:
    """``--verbose``, ``--quiet`` and ``--debug``."""

    def remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and param.name is not None:
            setattr(ctx.ensure_object(State), param.name, True)

    for flags, text in (
        (("--debug",), "Show the traceback of an error."),
        (("-q", "--quiet"), "Print no progress and no tables."),
        (("-v", "--verbose"), "Show every site, all columns, and reasons that belong to this machine."),
    ):
        command = click.option(*flags, is_flag=True, expose_value=False, is_eager=True, callback=remember, help=text)(
            command
        )
    return command


def several(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def or_none(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Give a command None for an option that is never given, in place of click's empty tuple."""
    return values or None


def _parse_required(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[Any, int]:
    from ffn_export.fusion.report import check_required

    required: dict[Any, int] = {}
    for value in (each.strip() for listed in values for each in listed.split(",")):
        kind, _, count = value.partition("=")
        required[kind] = int(count) if count.isdecimal() else 0
        check_required(required)
    return required


trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Import the source that a bundle's manifest names, or open a .pt2 file. Both can run any code: trust only "
    "files of people whom you trust.",
)
input_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=or_none,
    metavar="NAME:DTYPE[DIM,...]",
    help="An input, such as x:float32[batch,seq,768]; once for each. Presets and hf:DIR know their own.",
)
samples_option = click.option("--samples", type=PATH, metavar="FILE.npz", help="Arrays to trace with and to verify on.")
opset_option = click.option(
    "--opset", type=Whole(1, 99), default=20, show_default=True, help="Opset of the export, 18 or higher."
)
target_option = click.option(
    "--target", default="ort-cpu", show_default=True, metavar=TARGET_NAMES, help="What to fuse for."
)
portable_functions_option = click.option(
    "--portable-functions",
    is_flag=True,
    help="Give com.microsoft operators bodies in standard ones, for runtimes that do not know them.",
)
runtime_option = click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    callback=or_none,
    metavar="NAME",
    help=f"A runtime that must judge it; once for each: {', '.join(LISTED)}. `ffn-export doctor` says which "
    "work here. [default: ort-cpu and ort-cuda, where they can run]",
)
threads_option = click.option(
    "--threads", type=Whole(1, MOST_THREADS), help="Intra-op threads. [default: the processors of this process]"
)
max_ratio_option = click.option("--max-ratio", type=Positive(), help="Fail if it takes longer than this times PyTorch.")
fast_option = click.option(
    "--fast", is_flag=True, help="For the edit loop: verify on a few cases and time nothing. The result says so."
)
check_option = click.option(
    # A plain flag, not `flag_value=False`, whose default differs between releases of click.
    "--no-check",
    "check",
    is_flag=True,
    callback=lambda context, option, is_off: not is_off,
    help="Do not run both graphs on drawn inputs, which undoes what differs.",
)
require_fusion_option = click.option(
    "--require-fusion",
    multiple=True,
    metavar="KIND=N[,KIND=N]",
    callback=_parse_required,
    help="Fail unless N sites of a kind have the target's form, rewritten or not.",
)
_source_options = several(
    click.option(
        "--dtype",
        metavar="float32|float16|bfloat16|mixed",
        help="Precision; mixed computes matrix products in float16 and the rest in float32.",
    ),
    click.option("--keep-io", is_flag=True, help="Keep the graph's inputs and outputs in float32."),
    click.option("--seed", type=Whole(0, LARGEST_SEED), help="Seed of the weights and of the drawn inputs."),
    click.option(
        "--task",
        metavar="NAME",
        help="What hf:DIR is loaded for, such as fill-mask, or text-generation-with-past for a decoder with its cache. "
        "[default: what its config.json says]",
    ),
    trust_option,
)


def source_options(command: Command) -> Command:
    """Add the options for loading a source; the command gets them as ``source``, a :class:`SourceOptions`."""

    @wraps(command)
    def gathered(*arguments: Any, **given: Any) -> Any:
        source = {name: given.pop(name) for name in ("seed", "dtype", "keep_io", "task", "trust")}
        return command(*arguments, **given, source=source)

    return cast("Command", _source_options(gathered))


def read_npz(path: Path | None) -> dict[str, Any] | None:
    """Read the arrays of ``--samples``, if it was given.

    Raises:
        UsageError: If the file is missing or is no ``.npz`` of plain arrays.
    """
    if path is None:
        return None
    from ffn_export.core.arrays_file import read_arrays

    return read_arrays(path)
