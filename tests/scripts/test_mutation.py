"""Mutants: what is drawn, which tests they meet, and what becomes of them."""

from __future__ import annotations

import json
import subprocess
from itertools import islice
from pathlib import Path

import pytest

import mutation
from mutants import trial, warm
from mutants.draw import Mutant, drawn
from mutants.tests_of import tests_of as found_tests

PAIR = "ffn_export/pair.py"
CODE = '''"""A pair."""


def larger(a: int | None, b: int) -> int | None:
    """Return the larger one."""
    return a if a is not None and a > b else b


def twice(a: int) -> int:
    """Return twice the number."""
    return 2 * a
'''
TEST = """from ffn_export.pair import larger


def test_larger():
    assert larger(5, 2) == 5
    assert larger(2, 5) == 5
"""

LIMITED = """MOST = 9


def limited(a):
    return min(
        a,
        MOST,
    )


def seven():
    return 7
"""
TESTS = """import subprocess

import pytest

from ffn_export.pair import limited, seven


@pytest.fixture(scope="module")
def made():
    return seven()


@pytest.mark.slow
def test_limited_slowly():
    assert limited(10) == 9


def test_process():
    subprocess.run(["true"])


def test_limited():
    assert limited(5) == 5


def test_made(made):
    assert made


def test_made_again(made):
    assert made == 7
"""
OTHER = """def test_other():
    import ffn_export.pair
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one module, one of whose two functions is tested."""
    root = tmp_path / "repository"
    for name, text in {PAIR: CODE, "ffn_export/__init__.py": "", "tests/test_pair.py": TEST}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    monkeypatch.chdir(tmp_path)
    warm.CONTEXT.set_forkserver_preload(["pytest"])
    for module in (trial, mutation):
        monkeypatch.setattr(module, "ROOT", root)
    return root


def all_of(root: Path, seed: int = 0) -> list[Mutant]:
    return list(drawn([PAIR], seed, root))


def test_a_mutant_changes_one_line_and_no_annotation(repository: Path) -> None:
    mutants = all_of(repository)
    assert {each.line for each in mutants} == {6, 11}
    assert "return a if a is not None or a > b else b" in {each.after for each in mutants}
    assert {each.after for each in mutants} >= {"return 3 * a", "return 2 + a"}
    for each in mutants:
        old, new = CODE.splitlines(), each.of(CODE).splitlines()
        assert [line for line, (a, b) in enumerate(zip(old, new, strict=True), 1) if a != b] == [each.line]


def test_a_larger_draw_begins_with_the_smaller_one(repository: Path) -> None:
    mutants = all_of(repository)
    assert list(islice(drawn([PAIR], 0, repository), 3)) == mutants[:3]
    assert all_of(repository, seed=1) != mutants
    assert set(all_of(repository, seed=1)) == set(mutants)


def test_tests_are_those_of_the_path_and_those_that_import_the_module(repository: Path) -> None:
    (repository / "tests" / "deep").mkdir()
    (repository / "tests" / "deep" / "test_others.py").write_text("import numpy\n")
    (repository / "tests" / "helper.py").write_text("from ffn_export import pair\n")
    (repository / "tests" / "deep" / "test_by_helper.py").write_text("from tests.helper import pair\n")
    assert found_tests("ffn_export/deep/other.py", repository) == [
        "tests/deep/test_by_helper.py",
        "tests/deep/test_others.py",
    ]
    (repository / "ffn_export" / "alone").mkdir()
    assert found_tests("ffn_export/alone/pair.py", repository) == []
    assert "tests/deep/test_by_helper.py" in found_tests(PAIR, repository)


def test_tests_are_those_of_the_nearest_folder_and_those_named_after_a_user(repository: Path) -> None:
    tests = ("part/high/test_outer", "part/high/test_outer_again", "part/high/test_alone", "other/test_outer")
    for name, text in {
        "ffn_export/part/low/middle.py": "from ffn_export.part.low import inner\n",
        "ffn_export/part/high/outer.py": "from ffn_export.part.low.middle import inner\n",
        "ffn_export/other/outer.py": "from ffn_export.part.low import inner\n",
        **dict.fromkeys((f"tests/{each}.py" for each in (*tests, "part/low/test_low")), ""),
    }.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    users = ["tests/part/high/test_outer.py", "tests/part/high/test_outer_again.py"]
    # Those of a user in another part, and of its neighbour, are not its own.
    assert found_tests("ffn_export/part/low/inner.py", repository) == [*users, "tests/part/low/test_low.py"]
    (repository / "tests/part/low/test_low.py").rename(repository / "tests/part/test_part.py")
    (repository / "tests/part/low").rmdir()
    nearest = ["tests/part/high/test_alone.py", *users, "tests/part/test_part.py"]
    assert found_tests("ffn_export/part/low/inner.py", repository) == nearest


@pytest.mark.integration
def test_a_mutant_meets_the_tests_that_run_its_statement(repository: Path) -> None:
    files = ["tests/test_other.py", "tests/test_pair.py"]
    for name, text in {PAIR: LIMITED, **dict(zip(files, (OTHER, TESTS), strict=True))}.items():
        (repository / name).write_text(text)
    trace = trial.traced(repository, [PAIR], files)

    def met(line: str) -> list[str]:
        runs = trace.tests_of(repository / PAIR, LIMITED.splitlines().index(line) + 1, files)
        return [run.id.split("::test_")[1] for run in runs]

    # Slow tests, and those with a process, come last.
    assert met("    return min(") == met("        MOST,") == ["limited", "process", "limited_slowly"]
    # What a shared fixture runs is run by all that take it.
    assert met("    return 7") == ["made", "made_again", "process"]
    # A constant concerns every test.
    assert met("MOST = 9") == met("") == ["limited", "made", "made_again", "other", "process", "limited_slowly"]
    trace = trial.traced(repository, [PAIR], files, quick=True)
    assert met("    return min(") == ["limited", "process"]


@pytest.mark.integration
def test_what_no_test_fails_on_survives(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mutation.main(["--only", PAIR, "--number", "4"]) == 0
    results = [json.loads(line) for line in Path("mutation.jsonl").read_text().splitlines()]
    assert sorted((each["line"], each["outcome"]) for each in results) == [
        *((6, "killed"), (6, "killed")),
        *((11, "survived"), (11, "survived")),
    ]
    assert (repository / PAIR).read_text() == CODE
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [f"{PAIR}:11: return 2 * a -> return {a}" for a in ("2 & a", "3 * a")]
    assert printed.err.splitlines()[-1] == "2 killed, 2 survived"
    # What is stored is not run again; a mutant without a test survives.
    (repository / "tests" / "test_pair.py").write_text("")
    assert mutation.main(["--only", PAIR, "--number", "5"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "2 killed, 3 survived"


@pytest.mark.integration
def test_tests_that_fail_without_a_mutant_judge_none(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "tests" / "test_pair.py").write_text("from ffn_export.pair import larger\n\n\ndef test(): assert 0\n")
    assert mutation.main(["--only", PAIR, "--number", "1"]) == 2
    assert "tests fail without a mutant" in capsys.readouterr().err
    assert not Path("mutation.jsonl").exists()


@pytest.mark.integration
def test_a_mutant_that_does_not_end_is_ended(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_START", 0.01)
    monkeypatch.setattr(trial, "_PATIENCE", 0)
    assert mutation.main(["--only", PAIR, "--number", "1"]) == 0
    assert json.loads(Path("mutation.jsonl").read_text())["outcome"] == "timed out"
