"""The pytest plugin: the fixture ``assert_parity``, the marker ``parity``, ``--parity-runtime``, ``--parity-report``.

pytest imports this module in every run of every environment that has the package. Importing it is therefore light:
torch loads with the first assertion.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ffn_export import testing
from ffn_export.core.plain_file import not_writable
from ffn_export.core.source_options import SourceOptions
from ffn_export.errors import RuntimeUnavailableError, UsageError, did_you_mean

if TYPE_CHECKING:
    from ffn_export.parity.judging.result import ParityResult
    from ffn_export.verbs.open_model import Model
    from ffn_export.verbs.source_spec import Subject

MARKER = "parity"
_OPTIONS = (
    *inspect.getfullargspec(testing.assert_parity).kwonlyargs,
    *SourceOptions.__annotations__,
)
_BOUNDS = frozenset({"tolerances", "atol", "rtol"})
_LONGEST_NAME = 150


@dataclass
class Reports:
    """Directory of ``--parity-report``, and the report names already used."""

    directory: Path
    taken: dict[str, int] = field(default_factory=dict)

    def path(self, test: str) -> Path:
        """Return the path of a report without a suffix: ``TEST``, and ``TEST-2`` for the test's second assertion."""
        name = re.sub(r"[^\w.=,-]+", "-", test).strip("-")[-_LONGEST_NAME:]
        self.taken[name] = count = self.taken.get(name, 0) + 1
        return self.directory / (name if count == 1 else f"{name}-{count}")


_REPORTS = pytest.StashKey[Reports]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("ffn-export", "parity of ONNX models with PyTorch (ffn-export)")
    group.addoption(
        "--parity-runtime",
        dest="parity_runtimes",
        action="append",
        metavar="NAME",
        help="judge assert_parity on this runtime whatever the tests say; repeat for several. "
        "One that is not available here fails the test.",
    )
    group.addoption(
        "--parity-report",
        metavar="DIR",
        help="write the result of each assert_parity to DIR as JSON, passed or not, and the inputs of failing cases",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and reject an unknown runtime or a report directory that is none before any test runs."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}({', '.join(f'{name}=...' for name in _OPTIONS)}): defaults of the fixture assert_parity; "
        "runtimes=[...] runs the test once for each, and skips it where one is unavailable. "
        f"Tests that use the fixture have it by themselves, for -m {MARKER}.",
    )
    directory = config.getoption("--parity-report")
    if directory is not None:
        reports = Reports(config.invocation_params.dir / directory)
        try:
            reports.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--parity-report: {not_writable(reports.directory, error)}") from error
        config.stash[_REPORTS] = reports
    names = config.getoption("parity_runtimes") or ()
    if names:
        from ffn_export.runtimes.registry import get_runtime

        try:
            for name in names:
                get_runtime(name)
        except UsageError as error:
            raise pytest.UsageError(f"--parity-runtime: {error}") from error


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reject a marker with invalid arguments, and mark the tests that use the fixture."""
    for item in items:
        if "assert_parity" not in getattr(item, "fixturenames", ()):
            continue  # another plugin's or project's marker may have this name
        for marker in item.iter_markers(MARKER):
            _check(item, marker)
        if item.get_closest_marker(MARKER) is None:
            item.add_marker(MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each runtime named on the command line or by its marker."""
    if "parity_runtime" not in metafunc.fixturenames:
        return
    names = metafunc.config.getoption("parity_runtimes") or _defaults(metafunc.definition).get("runtimes")
    if names and isinstance(names, Collection):  # collection refuses what is no list
        metafunc.parametrize("parity_runtime", list(dict.fromkeys([names] if isinstance(names, str) else names)))


@pytest.fixture
def parity_runtime() -> str | None:
    """Runtime of this run of the test; None means every runtime that can run the model here."""
    return None


@pytest.fixture
def assert_parity(request: pytest.FixtureRequest, parity_runtime: str | None) -> AssertParity:
    """``ffn_export.testing.assert_parity`` with the defaults of the marker ``parity`` and of the command line."""
    for marker in request.node.iter_markers(MARKER):
        _check(request.node, marker)  # collection does not see a fixture that the test requests while it runs
    return AssertParity(
        request.node.nodeid,
        _defaults(request.node),
        parity_runtime,
        by_command_line=tuple(request.config.getoption("parity_runtimes") or ()),
        reports=request.config.stash.get(_REPORTS, None),
    )


@dataclass(frozen=True, repr=False)
class AssertParity:
    """Value of the fixture ``assert_parity``.

    Attributes:
        test: Node id of the test.
        defaults: Arguments of the test's markers.
        runtime: Runtime of this run of the test; None means every runtime that can run the model.
        by_command_line: Runtimes named on the command line.
        reports: Destination of ``--parity-report``; None writes no reports.
    """

    test: str
    defaults: dict[str, Any]
    runtime: str | None
    by_command_line: tuple[str, ...]
    reports: Reports | None

    def __call__(self, reference: Subject | Path | None, model: Model, **options: Any) -> ParityResult:
        """Assert parity as :func:`ffn_export.testing.assert_parity` does, with its arguments.

        An unavailable runtime skips the test if the test names it, and fails the test if the command line names it.
        """
        __tracebackhide__ = True
        options = self._options(options)
        path = None if self.reports is None else self.reports.path(self.test)
        if path is not None:
            options.setdefault("failures", path)
        try:
            result = testing.judge(reference, model, **options)
        except RuntimeUnavailableError as error:
            if not self.by_command_line:
                pytest.skip(str(error))
            raise pytest.fail.Exception(f"--parity-runtime: {error}", pytrace=False) from None
        if path is not None:
            from ffn_export.reports.json_report import write_json

            write_json(result.to_dict(), f"{path}.json")
        testing.require(result, reference, model, **options)
        return result

    def __repr__(self) -> str:
        """Stay short: pytest shows the arguments of a test that failed."""
        return f"<assert_parity on {self.runtime or 'all runtimes'}>"

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        options = _over(self.defaults, given)
        if self.runtime is not None and (self.by_command_line or "runtimes" not in given):
            options["runtimes"] = [self.runtime]
        elif (
            self.by_command_line
        ):  # pytest cannot parametrize a unittest.TestCase, or a fixture that is requested while the test runs
            options["runtimes"] = list(dict.fromkeys(self.by_command_line))
        return options


def _defaults(node: pytest.Item | pytest.Function) -> dict[str, Any]:
    """Merge the arguments of a test's markers: the test overrides its class, and the class its module."""
    markers: Iterator[pytest.Mark] = node.iter_markers(MARKER)
    merged: dict[str, Any] = {}
    for marker in reversed(list(markers)):
        merged = _over(merged, marker.kwargs)
    return merged


def _over(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Override defaults with arguments; a given tolerance, atol or rtol removes all three from the defaults."""
    kept = {name: value for name, value in defaults.items() if name not in _BOUNDS or not given.keys() & _BOUNDS}
    return {**kept, **given}


def _check(item: pytest.Item, marker: pytest.Mark) -> None:
    if marker.args:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.parity takes named arguments only: {', '.join(_OPTIONS)}")
    for name in marker.kwargs:
        if name not in _OPTIONS:
            raise pytest.UsageError(
                f"{item.nodeid}: @pytest.mark.parity has no argument {name!r};{did_you_mean(name, _OPTIONS)} "
                f"known are {', '.join(_OPTIONS)}"
            )
    from ffn_export.parity.judging.arguments import check_arguments

    try:
        check_arguments(marker.kwargs)
    except UsageError as error:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.parity: {error}") from error
