"""Files that a result is written to, and ``--html`` and ``--markdown``: a verification as a page to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ffn_export.errors import FfnExportError, UsageError

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
    """``--html`` and ``--markdown``."""
    command = click.option(
        "--markdown", "markdown_path", type=REPORT_FILE, metavar="FILE",
        help="Write the result as Markdown, for the summary of a CI job; - for standard output.",
    )(command)  # fmt: skip
    return click.option(
        "--html", "html_path", type=REPORT_FILE, metavar="FILE",
        help="Write the result as one HTML page, which needs no network; - for standard output.",
    )(command)  # fmt: skip


def write_reports(
    result: ParityResult,
    model: Path | None,
    html_path: str | None,
    markdown_path: str | None,
    commands: Sequence[str] | None = None,
    bisection: Bisection | None = None,
) -> None:
    """Write what was asked for.

    Args:
        result: The verification.
        model: What was verified: the page of a bundle shows its fusion and its timing too.
        html_path: Where the HTML page goes; None for nowhere.
        markdown_path: Where the Markdown goes; None for nowhere.
        commands: What does it again, each a line for the shell; None means what the result knows of that.
        bisection: Where it went wrong, where that was asked.

    Raises:
        UsageError: If a path cannot be written to.
    """
    from ffn_export.bundle.results import Companions, read
    from ffn_export.reports.html import write_html
    from ffn_export.reports.markdown import write_markdown

    if html_path is not None:
        is_bundle = model is not None and model.is_dir()
        beside = read(model) if model is not None and is_bundle else Companions()
        try:
            write_html(
                result, html_path, beside.latency, beside.fusion, beside.sites, commands, bisection, beside.tuning
            )
        except FfnExportError:
            raise
        except Exception as error:
            if not is_bundle:
                raise
            raise UsageError(f"--html: the results that {model} holds cannot be shown: {error}") from error
    if markdown_path is not None:
        write_markdown(result, markdown_path, commands, bisection)
