"""Help texts: groups of options, examples that parse, and no broken word."""

from __future__ import annotations

import shlex

import click
import pytest

from ffn_export.cli.help import GROUPS, Command, group_of
from ffn_export.cli.main import COMMANDS, commands
from ffn_export.cli.options import TARGET_NAMES
from ffn_export.fusion.targets import TARGETS
from ffn_export.runtimes.listed import LISTED
from ffn_export.runtimes.registry import RUNTIMES


def command_of(name: str) -> Command:
    found = commands.get_command(click.Context(commands), name)
    assert isinstance(found, Command)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_its_group(name: str) -> None:
    grouped = {option: group for group, options in GROUPS.items() for option in options}
    options = command_of(name).get_params(click.Context(command_of(name)))
    groups = {each.name: group_of(each, grouped) for each in options if isinstance(each, click.Option)}
    assert "Other" not in groups.values(), groups


@pytest.mark.parametrize("name", COMMANDS)
def test_three_examples_that_parse(name: str) -> None:
    command = command_of(name)
    assert len(command.examples) == 3
    for example in command.examples:
        verb, *arguments = shlex.split(example)
        assert verb == name
        command.make_parser(click.Context(command)).parse_args(arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_narrow_and_breaks_no_word(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands.main([name, "--help"], prog_name="ffn-export", standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if line.endswith("-") and not line.endswith(" -")]
    assert lines[-1].startswith("More: docs/")


def test_the_choices_are_all_there() -> None:
    assert TARGET_NAMES.split("|") == list(TARGETS)
    assert {name: runtime.name for name, runtime in RUNTIMES.items()} == {name: name for name in LISTED}
