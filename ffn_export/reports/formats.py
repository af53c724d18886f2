"""File formats of a verification. A new format is a file with a function and an entry here, which adds its option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.site_graph import SiteGraph
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.result import ParityResult
from ffn_export.tuning.result import TuningResult


@dataclass(frozen=True)
class Verification:
    """A verification, with other results that a report may include.

    Attributes:
        result: The verification.
        commands: Shell commands that run it again, one a line; None means the one from :mod:`commands`.
        bisection: The bisection, if one was requested.
        latency: Timing of the verified bundle.
        fusion: Fusion report of the bundle.
        sites: Graphs of its fused sites, before and after fusing.
        tuning: Tuning result of the bundle.
        path: Path of the verified model; None if it is not known, as for a stored result.
        weights_bytes: Size of the bundle's weights.
    """

    result: ParityResult
    commands: Sequence[str] | None = None
    bisection: Bisection | None = None
    latency: LatencyResult | None = None
    fusion: FusionReport | None = None
    sites: Sequence[SiteGraph] = ()
    tuning: TuningResult | None = None
    path: Path | None = None
    weights_bytes: int | None = None


@dataclass(frozen=True)
class Format:
    """A format of reports.

    Attributes:
        name: Name of the option, without the dashes.
        help: Help text of the option.
        function: ``module:function`` in this package that converts a :class:`Verification` to text. It is imported on
            use, since the HTML page needs libraries that the command line does not.
        commands: Whether its lines are commands of a CI runner. It escapes the text in them itself.
    """

    name: str
    help: str
    function: str
    commands: bool = False

    def text(self, verification: Verification) -> str:
        """Return the report."""
        module, _, name = self.function.partition(":")
        function: Callable[[Verification], str] = getattr(import_module(f"ffn_export.reports.{module}"), name)
        return function(verification)


FORMATS = (
    Format("json", "Write the result as JSON", "json_report:verification_json"),
    Format("junit", "Write the result as JUnit XML", "junit:verification_junit"),
    Format("html", "Write the result as one HTML page, which needs no network", "html.page:html_page"),
    Format("markdown", "Write the result as Markdown, for the summary of a CI job", "markdown:verification_markdown"),
    Format("sarif", "Write failures as SARIF 2.1.0, for code scanning", "sarif:verification_sarif"),
    Format("github", "Write failures as annotations of GitHub Actions", "github:verification_github", commands=True),
)
