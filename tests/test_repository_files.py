"""The files that tools read off the repository: make help, CI, hooks, container, packaging."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.ci.yaml_files import ROOT, parse, problems

MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PHONY = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("arguments", [[], ["help"]], ids=["default", "help"])
def test_make_lists_every_target_with_a_line(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    command = ["make", "--no-print-directory", *arguments]  # `make test` runs this, so it may be a make within a make
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert set(listed) == PHONY
    assert list(tmp_path.iterdir()) == [tmp_path / "Makefile"], "listing the targets made something"


@pytest.mark.slow
def test_the_workflow_follows_the_schema_and_runs_what_ci_runs() -> None:
    file = ROOT / ".github" / "workflows" / "ci.yml"
    assert problems(file, "vendor.github-workflows") == ""
    (job,) = parse(file.read_text())["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert (ROOT / ".ci" / "run").is_file()


def test_the_hooks_call_the_tools_of_make_lint() -> None:
    (repository,) = parse((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    called = [hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repository["hooks"]]
    recipe = MAKEFILE.split("\nlint:")[1].split("\n\n")[0]
    assert called == re.findall(r"\$\(BIN\)/([\w-]+)", recipe)


def test_the_container_installs_with_a_target_that_exists() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    make, target = container["postCreateCommand"].split()
    assert make == "make"
    assert target in PHONY


def test_the_licence_is_the_one_that_packaging_names() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    (name,) = PROJECT["license-files"]
    assert "Apache License" in (ROOT / name).read_text()
    assert PROJECT["authors"] == [{"name": "the ffn_export contributors"}]


def test_the_changelog_has_unreleased_changes() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
