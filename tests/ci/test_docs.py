"""docs/ci.md: what is to be copied is valid, and every command in it exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import ffn_export as fx
from ffn_export.cli.main import COMMANDS, commands
from tests.ci.yaml_files import ROOT, parse, problems

PAGE = (ROOT / "docs" / "ci.md").read_text()
ACTION = parse((ROOT / "action.yml").read_text())
HOOKS = parse((ROOT / ".pre-commit-hooks.yaml").read_text())


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


WORKFLOWS = [text for text in blocks("yaml") if "on" in parse(text)]
PRE_COMMIT = [text for text in blocks("yaml") if "repos" in parse(text)]
GITLAB = [text for text in blocks("yaml") if text not in (*WORKFLOWS, *PRE_COMMIT)]


def steps() -> Iterator[dict[str, Any]]:
    for text in WORKFLOWS:
        for job in parse(text)["jobs"].values():
            yield from job["steps"]


def command_lines() -> list[list[str]]:
    """Return every ``ffn-export`` command of the page, as words."""
    scripts = [*blocks("sh"), *(step["run"] for step in steps() if "run" in step)]
    scripts += [line for text in GITLAB for job in parse(text).values() for line in job["script"]]
    lines = [line.strip() for script in scripts for line in script.splitlines()]
    hooks = [hook for text in PRE_COMMIT for repo in parse(text)["repos"] for hook in repo["hooks"]]
    found = [shlex.split(line) for line in lines if line.startswith("ffn-export ")]
    return [*found, *([*shlex.split(HOOKS[0]["entry"]), *hook["args"]] for hook in hooks)]


def known_options(words: list[str]) -> set[str]:
    command = commands.get_command(click.Context(commands), words[1])
    assert command is not None, f"no such command: {words[1]}"
    return {option for parameter in command.params for option in parameter.opts}


def test_the_page_has_an_example_of_each() -> None:
    assert [len(WORKFLOWS), len(GITLAB), len(PRE_COMMIT)] == [2, 1, 1]
    assert len(command_lines()) >= 10


@pytest.mark.integration
@pytest.mark.parametrize(
    ("texts", "schema"),
    [(WORKFLOWS, "vendor.github-workflows"), (GITLAB, "vendor.gitlab-ci")],
    ids=["github", "gitlab"],
)
def test_examples_follow_the_published_schemas(texts: list[str], schema: str, tmp_path: Path) -> None:
    for index, text in enumerate(texts):
        file = tmp_path / f"{index}.yaml"
        file.write_text(text)
        assert problems(file, schema) == ""
        file.write_text(text.replace("script:", "scripts:").replace("steps:", "stepps:"))
        assert problems(file, schema) != "", "the schema takes anything"


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_commands_exist_with_their_options(words: list[str]) -> None:
    used = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
    assert used <= known_options(words)


def test_every_option_that_the_text_names_exists() -> None:
    known = {option for name in COMMANDS for option in known_options(["", name])}
    known |= {"--parity-runtime", "--parity-report"}  # of pytest, tested with the plugin
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))
    assert named <= known


def test_the_action_has_the_inputs_and_outputs_that_are_used() -> None:
    (step,) = (step for step in steps() if "ffn_export" in step.get("uses", ""))
    assert set(step["with"]) <= set(ACTION["inputs"])
    outputs = set(re.findall(rf"steps\.{step['id']}\.outputs\.(\w+)", PAGE))
    assert outputs
    assert outputs <= set(ACTION["outputs"])


def test_the_hook_of_the_page_is_the_one_that_is_there() -> None:
    (hook,) = HOOKS
    (used,) = (h for text in PRE_COMMIT for repo in parse(text)["repos"] for h in repo["hooks"])
    assert [used[key] for key in ("id", "name", "entry")] == [hook[key] for key in ("id", "name", "entry")]
    assert hook["pass_filenames"] is used["pass_filenames"] is False  # `verify` takes one model
    changed = ["exported/encoder.onnx", "exported/encoder.onnx.data"]
    assert all(re.search(hook["files"], name) for name in changed)
    assert not re.search(hook["files"], "README.md")


def test_exit_statuses_are_those_of_the_errors() -> None:
    listed = {int(status) for status in re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)}
    assert listed == {0, fx.GateError.exit_status, fx.UsageError.exit_status, fx.RuntimeUnavailableError.exit_status}
