"""File formats of a verification. A new format is a file with a function and an entry here, which adds its option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from pkgutil import resolve_name

from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.site_graph import SiteGraph
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.result import ParityResult
from ffn_export.tuning.result import TuningResult


@dataclass(frozen=True, kw_only=True)
class Companions:
    """Results of a bundle beside its verification; a missing one is None or empty.

    Attributes:
        latency: The timing.
        fusion: Status of each site.
        sites: Graphs of the fused sites, before and after fusing.
        tuning: Trials and choice of the tuning.
        weights_bytes: Size of the model's weights.
    """

    latency: LatencyResult | None = None
    fusion: FusionReport | None = None
    sites: Sequence[SiteGraph] = ()
    tuning: TuningResult | None = None
    weights_bytes: int | None = None


@dataclass(frozen=True)
class Verification(Companions):
    """A verification, with other results that a report may include.

    Attributes:
        result: The verification.
        commands: Shell commands that run it again, one a line; None means the one from :mod:`commands`.
        bisection: The bisection, if one was requested.
        path: Path of the verified model; None if it is not known, as for a stored result.
    """

    result: ParityResult
    commands: Sequence[str] | None = None
    bisection: Bisection | None = None
    path: Path | None = None


@dataclass(frozen=True)
class Format:
    """A format of reports.

    Attributes:
        name: Name of the option, without the dashes.
        help: Help text of the option.
        function: ``module:function`` in this package that converts a :class:`Verification` to text. It is imported on
            use, since the HTML page needs libraries that the command line does not.
        begins: What its files begin with. A report replaces only a file that is blank, or begins as that of a format.
        commands: Whether its lines are commands of a CI runner. It escapes the text in them itself.
    """

    name: str
    help: str
    function: str
    _: KW_ONLY
    begins: str
    commands: bool = False

    def text(self, verification: Verification) -> str:
        """Return the report."""
        function: Callable[[Verification], str] = resolve_name(f"ffn_export.reports.{self.function}")
        return function(verification)


FORMATS = (
    Format("json", "Write the result as JSON", "json_report:verification_json", begins="{"),
    Format("junit", "Write the result as JUnit XML", "junit:verification_junit", begins="<"),
    Format("html", "Write the result as one HTML page, which needs no network", "html.page:html_page", begins="<"),
    Format(
        "markdown",
        "Write the result as Markdown, for the summary of a CI job",
        "markdown:verification_markdown",
        begins="## ",
    ),
    Format("sarif", "Write failures as SARIF 2.1.0, for code scanning", "sarif:verification_sarif", begins="{"),
    Format(
        "github",
        "Write failures as annotations of GitHub Actions",
        "github:verification_github",
        begins="::",
        commands=True,
    ),
)
