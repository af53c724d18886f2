"""The command reference as Markdown, made from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ffn_export.cli.help import GROUPS, Command, group_of
from ffn_export.cli.main import COMMANDS, commands


def reference() -> str:
    """Return a section for each command: its text, usage, examples and options."""
    return "\n".join(line for name in COMMANDS for line in _section(name))


def _section(name: str) -> Iterator[str]:
    context = click.Context(commands, info_name="ffn-export")
    command = commands.get_command(context, name)
    assert isinstance(command, Command)
    own = click.Context(command, info_name=name, parent=context)
    yield f"## {name}\n"
    yield f"{_plain(inspect.cleandoc(command.help or ''))}\n"
    yield _block([command.get_usage(own).removeprefix("Usage: ")])
    yield _block([f"ffn-export {example}" for example in command.examples])
    yield from _options(command, own)


def _options(command: Command, context: click.Context) -> Iterator[str]:
    grouped = {name: group for group, names in GROUPS.items() for name in names}
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    yield "| | option | |\n| --- | --- | --- |"
    for group in (*GROUPS, "Other"):
        shown = group
        for option in (each for each in options if group_of(each, grouped) == group):
            record = option.get_help_record(context)
            if record is not None:
                yield f"| {shown} | `{_cell(record[0])}` | {_cell(_plain(record[1]))} |"
                shown = ""
    yield ""


def _block(lines: list[str]) -> str:
    return "```text\n{}\n```\n".format("\n".join(lines))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _plain(text: str) -> str:
    """Keep what Markdown would take for a tag, a link or emphasis as it is."""
    return re.sub(r"([\[\]*_])", r"\\\1", text.replace("<", "&lt;"))
