"""Finds the tests that run a line: one run of the tests without a mutant, traced by coverage.py."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData

_DATA, _TESTS = "coverage", "tests.json"
_IMPORT = ""  # what runs before the first test
_FIXTURE = "fixture "


@dataclass
class TestRun:
    """A test, the seconds that it took, and what else decides whether and when it meets a mutant."""

    __test__ = False  # for pytest

    id: str
    slow: bool
    fixtures: list[str]
    seconds: float = 0.0
    starts_process: bool = False

    @property
    def file(self) -> str:
        """Its file, relative to the repository."""
        return self.id.split("::")[0]


class Tracer:
    """A plugin of pytest: traces files into a folder, slow tests as well."""

    def __init__(self, folder: Path, files: Collection[Path]) -> None:
        self._folder, self._context = folder, _IMPORT
        self._runs: dict[str, TestRun] = {}
        self._coverage = Coverage(folder / _DATA, config_file=False, include=[str(file) for file in files])
        self._coverage.start()
        sys.addaudithook(self._heard)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace a test under its name."""
        fixtures = list(getattr(item, "fixturenames", ()))
        self._runs[item.nodeid] = TestRun(item.nodeid, item.get_closest_marker("slow") is not None, fixtures)
        yield from self._within(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """A shared fixture is made for the first test that asks for it; what it ran is that of all of them."""
        shared = fixturedef.scope != "function"
        yield from self._within(_FIXTURE + fixturedef.argname if shared else self._context)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of a test, its setup or its teardown."""
        self._runs[report.nodeid].seconds += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write what was traced."""
        self._coverage.stop()
        self._coverage.save()
        (self._folder / _TESTS).write_text(json.dumps([asdict(run) for run in self._runs.values()]))

    def _within(self, context: str) -> Iterator[None]:
        before = self._context
        self._enter(context)
        try:
            return (yield)
        finally:
            self._enter(before)

    def _enter(self, context: str) -> None:
        self._context = context
        self._coverage.switch_context(context)

    def _heard(self, event: str, _: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and self._context in self._runs:
            self._runs[self._context].starts_process = True


@dataclass
class Order:
    """A plugin of pytest: runs some of the tests, in an order."""

    ids: Sequence[str]
    _place: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._place = {name: place for place, name in enumerate(self.ids)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop the other tests, and sort."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place), key=lambda item: self._place[item.nodeid]
        )


class Trace:
    """What a tracer wrote into a folder."""

    def __init__(self, folder: Path) -> None:
        self._data = CoverageData(str(folder / _DATA))
        self._data.read()
        self.runs = [TestRun(**run) for run in _stored(folder / _TESTS)]

    def tests_of(self, path: Path, line: int, files: Collection[str]) -> list[TestRun]:
        """Return the tests in files that a change of a line can fail, quick ones first.

        They run the statement of the line, or start a process, which is not traced. A statement that runs on import
        concerns all tests in the files.
        """
        contexts = self._data.contexts_by_lineno(str(path))
        lines = _statement(path.read_text(), line)
        statement = {name for each in lines for name in contexts.get(each, ())}
        module = {name for names in contexts.values() for name in names}
        runs = [run for run in self.runs if run.file in files]
        if lines and _IMPORT not in statement:
            runs = [run for run in runs if run.starts_process or _is_in(run, statement)]
        seconds: dict[str, float] = {}
        for run in runs:
            seconds[run.file] = seconds.get(run.file, 0.0) + run.seconds
        named = f"test_{path.stem}"

        def order(run: TestRun) -> tuple[bool, bool, bool, bool, float]:
            is_named = Path(run.file).stem.startswith(named)
            return run.slow, run.starts_process, not _is_in(run, module), not is_named, seconds[run.file]

        return sorted(runs, key=order)


def _stored(file: Path) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return result


def _is_in(run: TestRun, contexts: set[str]) -> bool:
    return run.id in contexts or any(_FIXTURE + name in contexts for name in run.fixtures)


def _statement(code: str, line: int) -> set[int]:
    """Return the lines of the innermost statement of a line, without those of the statements in it.

    A removed decorator is found at the empty line before it, which may be in no statement.
    """
    owner: dict[int, ast.stmt] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            owner.update(dict.fromkeys(range(first, (node.end_lineno or first) + 1), node))
    return {number for number, node in owner.items() if node is owner.get(line)}
