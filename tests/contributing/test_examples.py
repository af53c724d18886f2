"""Applies the worked examples of CONTRIBUTING.md to a copy of the repository, and runs the tests that they add."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from tests.contributing.examples import Change, copied, examples

EXAMPLES = examples()
# Tests that are there already and hold for what an example adds, as expressions of ``pytest -k``.
_LISTS = (
    *("tests/fusion/test_catalogue.py", "tests/fusion/functions/test_contract.py", "tests/cli/test_help.py"),
    *(f"tests/reports/test_{name}.py" for name in ("allowance", "formats", "hostile_names")),
)
# Tests of a rule that reads the table of activations.
_READERS = ("tests/fusion/rules/test_biased_gemm.py", "tests/fusion/rules/test_fused_gemm.py")
_TABLES = ("tests/modules/test_presets.py", "tests/fusion/test_presets.py", "tests/fusion/test_precisions.py")
_ROWS = "opt-ffn and (written or twin or widths or test_activations) and not 18 and not 23"
_OF_TABLES = f"{_ROWS} or presets_are_these or is_complete"


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with all examples in it."""
    root = copied(tmp_path_factory.mktemp("contributing") / "copy")
    for changes in EXAMPLES.values():
        for change in changes:
            change.apply(root)
    return root


@pytest.fixture(scope="module")
def outcomes(changed: Path) -> Counter[tuple[str, bool]]:
    """File -> passed or not -> number of tests, of what the examples add and of the tables that hold for it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST_"))}
    environment["PYTHONPATH"] = str(changed)
    catalogue = [sys.executable, "-m", "ffn_export.fusion.catalogue"]
    page = subprocess.run(catalogue, cwd=changed, env=environment, capture_output=True, text=True, check=True).stdout
    (changed / "docs" / "fusion.md").write_text(page)
    added = [change.path for changes in EXAMPLES.values() for change in changes if _is_test(change)]
    names = " or ".join(Path(path).stem for path in (*added, *_LISTS, *_READERS))
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("--junit-xml=outcomes.xml", "-o", "junit_family=xunit1"),
        *("-m", "not exhaustive", "-k", f"{names} or {_OF_TABLES}"),
        *(*added, *_LISTS, *_READERS, *_TABLES),
    ]
    done = subprocess.run(command, cwd=changed, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = ET.parse(changed / "outcomes.xml").getroot().iter("testcase")
    return Counter((case.attrib["file"], not list(case)) for case in cases)


def _is_test(change: Change) -> bool:
    return change.text is not None and change.path.startswith("tests/")


def test_the_examples_are_these() -> None:
    assert list(EXAMPLES) == [
        "Add an activation",
        "Add a fused form",
        "Add a runtime",
        "Add a preset",
        "Add a report format",
        "Add a check",
    ]
    assert all(EXAMPLES.values())


def test_who_followed_an_example_to_the_letter_has_it_once(changed: Path) -> None:
    changes = [change for each in EXAMPLES.values() for change in each]
    written = {change.path: (changed / change.path).read_text() for change in changes}
    for change in changes:
        change.apply(changed)
        assert (changed / change.path).read_text() == written[change.path]


@pytest.mark.integration
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_adds_works(name: str, outcomes: Counter[tuple[str, bool]]) -> None:
    added = [change.path for change in EXAMPLES[name] if _is_test(change)] or list(_TABLES)
    for path in added:
        assert outcomes[path, True] > 0
        assert outcomes[path, False] == 0


def test_the_examples_are_written_as_the_linter_wants_it(changed: Path) -> None:
    files = [change.path for changes in EXAMPLES.values() for change in changes]
    for command in (["check", "--no-cache"], ["format", "--no-cache", "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *files], cwd=changed, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
