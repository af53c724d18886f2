"""The formats of a verification. A new format is a file with a function, and its line here: options follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.site_graph import SiteGraph
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.result import ParityResult
from ffn_export.tuning.result import TuningResult


@dataclass(frozen=True)
class Verification:
    """A verification, with the results that a page may show beside it.

    Attributes:
        result: The verification.
        commands: Commands that run it again, a line each; None means those that the result knows.
        bisection: The node that is wrong, if that was asked.
        latency: Timing of the bundle that was verified.
        fusion: Its sites.
        sites: Its sites as graphs, before and after.
        tuning: What was tried for it.
    """

    result: ParityResult
    commands: Sequence[str] | None = None
    bisection: Bisection | None = None
    latency: LatencyResult | None = None
    fusion: FusionReport | None = None
    sites: Sequence[SiteGraph] = ()
    tuning: TuningResult | None = None


@dataclass(frozen=True)
class Format:
    """A format of reports.

    Attributes:
        name: Name of its option, without the dashes.
        help: What the option writes, in a few words.
        function: ``module:function`` in this package; it makes the text of a :class:`Verification`. It is imported when
            it is used: a page needs libraries that the command line does not.
    """

    name: str
    help: str
    function: str

    def text(self, verification: Verification) -> str:
        """Return the report."""
        module, _, name = self.function.partition(":")
        function: Callable[[Verification], str] = getattr(import_module(f"ffn_export.reports.{module}"), name)
        return function(verification)


FORMATS = (
    Format("json", "Write the result as JSON", "json_report:verification_json"),
    Format("junit", "Write the result as JUnit XML", "junit:verification_junit"),
    Format("html", "Write the result as one HTML page, which needs no network", "html.page:verification_html"),
    Format("markdown", "Write the result as Markdown, for the summary of a CI job", "markdown:verification_markdown"),
)
