"""The command reference as Markdown, made from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ffn_export.cli.main import COMMANDS, commands


def reference() -> str:
    """Return a section for each command: its text, usage and options."""
    return "\n".join(line for name in COMMANDS for line in _section(name))


def _section(name: str) -> Iterator[str]:
    context = click.Context(commands, info_name="ffn-export")
    command = commands.get_command(context, name)
    assert command is not None
    own = click.Context(command, info_name=name, parent=context)
    yield f"## {name}\n"
    yield f"```text\n{command.get_usage(own).removeprefix('Usage: ')}\n```\n"
    yield from _text(command)
    yield "| option | |\n| --- | --- |"
    records = [found for each in command.get_params(own) if (found := each.get_help_record(own)) is not None]
    for option, text in records:
        yield f"| `{_cell(option)}` | {_cell(_plain(text))} |"
    yield ""


def _text(command: click.Command) -> Iterator[str]:
    """Give the description; paragraphs of examples, which click prints as they stand, become blocks."""
    told = "\n\n".join(filter(None, (command.help, command.epilog)))
    for paragraph in inspect.cleandoc(told).split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip("\b ")]
        if paragraph.startswith("\b") or any("ffn-export " in line for line in lines):
            yield "```text\n{}\n```\n".format("\n".join(lines))
        elif lines:
            yield _plain("\n".join(lines)) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _plain(text: str) -> str:
    """Keep what Markdown would take for a tag or emphasis as it is."""
    return re.sub(r"([\[\]*_])", r"\\\1", text.replace("<", "&lt;"))
