"""Report files, and an option for each report format of a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ffn_export.cli.model_file import open_argument
from ffn_export.cli.options import Command, several
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.reports.formats import FORMATS, Companions, Verification

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ffn_export.parity.bisection.result import Bisection
    from ffn_export.parity.judging.result import ParityResult

    _Text = click.ParamType[str]
else:
    _Text = click.ParamType  # no generic type before click 8.2

# Key in click's `meta` for the option that writes to standard output.
_ON_STANDARD_OUTPUT = "ffn_export.standard_output"
# And for the option of each file.
_FILES = "ffn_export.files"


class ReportFile(_Text):
    """A writable path of a report, or - for standard output, checked before any work is done."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the path.

        Raises:
            UsageError: If the path cannot be written to or holds something other than a report, or two options name it.
        """
        from ffn_export.bundle.manifest import refuse_file_of_bundle
        from ffn_export.reports.text_file import check_writable

        if Path(value).suffix == ".onnx":
            raise UsageError(f"{value} is the name of a model: a report would take its place, name another file")
        if value == "-" and param is not None and ctx is not None:
            first = ctx.meta.setdefault(_ON_STANDARD_OUTPUT, param.opts[0])
            if first != param.opts[0]:
                raise UsageError(f"{first} and {param.opts[0]} cannot both be standard output: name a file for one")
        if value == "-":
            return value
        refuse_file_of_bundle(Path(value))
        check_writable(value)
        if param is not None and ctx is not None:
            first = ctx.meta.setdefault(_FILES, {}).setdefault(Path(value).resolve(), param.opts[0])
            if first != param.opts[0]:
                raise UsageError(f"{first} and {param.opts[0]} cannot both be {value}: name another file for one")
        return value


REPORT_FILE = ReportFile()


json_option = click.option(
    "--json",
    "json_path",
    type=REPORT_FILE,
    metavar="FILE",
    help="Write the result as JSON; - for standard output, without tables there.",
)


def show(data: Mapping[str, Any], table: RenderableType, json_path: str | None) -> None:
    """Write a result to the path of ``--json``, if it was given, and print its table unless the JSON is printed."""
    from ffn_export.reports.console import stdout_console
    from ffn_export.reports.json_report import write_json

    if json_path is not None:
        write_json(data, json_path)
    if json_path != "-":
        stdout_console().print(table)


_report_options = several(
    *(
        click.option(
            f"--{each.name}",
            f"{each.name}_path",
            type=REPORT_FILE,
            metavar="FILE",
            help=f"{each.help}; - for standard output.",
        )
        for each in FORMATS
    )
)


def report_options(command: Command) -> Command:
    """Add an option for each report format; the command gets ``reports``, format -> path."""

    @wraps(command)
    def gathered(*arguments: Any, **given: Any) -> Any:
        paths = {each.name: given.pop(f"{each.name}_path") for each in FORMATS}
        return command(*arguments, **given, reports={name: path for name, path in paths.items() if path is not None})

    return cast("Command", _report_options(gathered))


def write_reports(
    reports: Mapping[str, str],
    result: ParityResult,
    model: Path | None,
    commands: Sequence[str],
    bisection: Bisection | None,
) -> None:
    """Write the requested reports.

    Args:
        reports: Format -> path.
        result: The verification.
        model: The model; the report of a bundle shows its fusion and timing too.
        commands: Commands that run the verification again, one line each.
        bisection: Result of the bisection, if any.

    Raises:
        UsageError: If a path cannot be written to, once the other reports are written.
    """
    from ffn_export.bundle.manifest import reports_of
    from ffn_export.bundle.results import read
    from ffn_export.reports.text_file import write_text

    failed: list[UsageError] = []
    is_bundle = model is not None and model.is_dir()
    path = None if model is None else open_argument(model)[0]
    for each in FORMATS:
        if each.name not in reports:
            continue
        beside = read(reports_of(model, path.name)) if model and path and is_bundle else Companions()
        told = Verification(result, commands, bisection, path, **vars(beside))
        try:
            text = each.text(told)
        except FfnExportError:
            raise
        except Exception as error:
            if not is_bundle:
                raise
            raise UsageError(f"--{each.name}: the results that {model} holds cannot be shown: {error}") from error
        try:
            write_text(text, reports[each.name], commands=each.commands)
        except UsageError as error:  # as on a full disk: the others are not lost with it
            failed.append(error)
    if failed:
        raise failed[0]
