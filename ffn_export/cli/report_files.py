"""Files that results are written to, and an option for each format of a verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ffn_export.errors import FfnExportError, UsageError
from ffn_export.reports.formats import FORMATS, Verification

if TYPE_CHECKING:
    from ffn_export.parity.bisection.result import Bisection
    from ffn_export.parity.judging.result import ParityResult

    _Text = click.ParamType[str]
else:
    _Text = click.ParamType  # no generic type before click 8.2

Command = TypeVar("Command", bound=Callable[..., Any])


# Where click keeps which option has standard output.
_ON_STANDARD_OUTPUT = "ffn_export.standard_output"


class ReportFile(_Text):
    """A path that can be written to, or - for standard output: refused before any work is done for it."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the path.

        Raises:
            UsageError: If it cannot be written to, is that of a model, or is standard output twice.
        """
        from ffn_export.reports.text_file import check_writable

        if Path(value).suffix == ".onnx":
            raise UsageError(f"{value} is the name of a model: a report would take its place, name another file")
        if value == "-" and param is not None and ctx is not None:
            first = ctx.meta.setdefault(_ON_STANDARD_OUTPUT, param.opts[0])
            if first != param.opts[0]:
                raise UsageError(f"{first} and {param.opts[0]} cannot both be standard output: name a file for one")
        check_writable(value)
        return value


REPORT_FILE = ReportFile()


def report_options(command: Command) -> Command:
    """An option for each format; the command gets format -> path, ``reports``."""

    @wraps(command)
    def gathered(*arguments: Any, **given: Any) -> Any:
        paths = {each.name: given.pop(f"{each.name}_path") for each in FORMATS}
        return command(*arguments, **given, reports={name: path for name, path in paths.items() if path is not None})

    for each in reversed(FORMATS):
        gathered = click.option(
            f"--{each.name}",
            f"{each.name}_path",
            type=REPORT_FILE,
            metavar="FILE",
            help=f"{each.help}; - for standard output.",
        )(gathered)
    return cast("Command", gathered)


def write_reports(
    reports: Mapping[str, str],
    result: ParityResult,
    model: Path | None,
    commands: Sequence[str] | None = None,
    bisection: Bisection | None = None,
) -> None:
    """Write the reports that were asked for.

    Args:
        reports: Format -> path.
        result: The verification.
        model: The model; a page of a bundle shows its fusion and its timing too.
        commands: Commands that run it again, a line each; None means those that the result knows.
        bisection: The node that is wrong, if that was asked.

    Raises:
        UsageError: If a path cannot be written to.
    """
    from ffn_export.bundle.results import Companions, read
    from ffn_export.reports.text_file import write_text

    is_bundle = model is not None and model.is_dir()
    for each in FORMATS:
        if each.name not in reports:
            continue
        beside = read(model) if model is not None and is_bundle else Companions()
        told = Verification(result, commands, bisection, beside.latency, beside.fusion, beside.sites, beside.tuning)
        try:
            text = each.text(told)
        except FfnExportError:
            raise
        except Exception as error:
            if not is_bundle:
                raise
            raise UsageError(f"--{each.name}: the results that {model} holds cannot be shown: {error}") from error
        write_text(text, reports[each.name])
