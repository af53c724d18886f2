"""Assemble the HTML page from the tables and charts of this package and the template in ``templates``."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ffn_export.core.plain_text import visible
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.judging import verdict
from ffn_export.reports.bisection import how
from ffn_export.reports.commands import verify_command
from ffn_export.reports.formats import Verification
from ffn_export.reports.host import stolen_words
from ffn_export.reports.html import other_tables, parity_tables
from ffn_export.reports.html.error_chart import ErrorLine, error_lines, error_svg
from ffn_export.reports.html.latency_chart import latency_svg, speed_svg
from ffn_export.reports.html.site_drawing import drawing
from ffn_export.reports.latency import copies_words, default_words, doubt_words, limit_words
from ffn_export.reports.overview import legend, other_failures, verdict_sentence
from ffn_export.reports.summary import MARKS, size_words, summary
from ffn_export.reports.tuning import chosen_words, same_words

if TYPE_CHECKING:
    from jinja2 import Template

_LONG_NAME = re.compile(r"[\w./:-]{20,}")
_PARTS = re.compile(r"[./_](?=\w)")


def html_page(verification: Verification) -> str:
    """Return a verification, with the other results of its bundle, as one HTML page; equal results give equal bytes."""
    result, latency, fusion = verification.result, verification.latency, verification.fusion
    bisection, tuning, sites = verification.bisection, verification.tuning, verification.sites
    weights_bytes, commands = verification.weights_bytes, verification.commands
    lines = error_lines(result)
    drawn = {name for site in sites for name in site.sites}
    return template("page.html.jinja").render(
        result=result,
        sentence=verdict_sentence(result),
        headline=[(line.mark, MARKS[line.mark], line.words) for line in summary(fusion, result, latency)],
        size=None if weights_bytes is None else size_words(weights_bytes),
        legend=legend(result.tolerances),
        runtimes=parity_tables.runtimes_table(result),
        checks=parity_tables.checks_table(result),
        other_failures=other_failures(result),
        failing=parity_tables.failing_table(result),
        bisection=bisection,
        bisected=[] if bisection is None else other_tables.bisection_tables(bisection),
        how=None if bisection is None else how(bisection),
        charts=_charts(lines, latency),
        cases=[parity_tables.cases_table(result, line.runtime) for line in lines],
        weights=parity_tables.weights_table(result),
        properties=parity_tables.properties_table(result),
        broken_properties=sum(verdict.property_failure(p, result.tolerances) is not None for p in result.properties),
        placement=parity_tables.placement_table(result),
        environment=None if result.environment is None else other_tables.environment_table(result.environment),
        latency=None if latency is None else other_tables.latency_table(latency),
        latency_of=latency,
        latency_notes=[]
        if latency is None
        else [f(latency) for f in (doubt_words, default_words, copies_words, limit_words, stolen_words)],
        tuning=tuning,
        tuned=None if tuning is None else other_tables.tuning_table(tuning),
        chosen=None if tuning is None else chosen_words(tuning),
        tuning_notes=[] if tuning is None else [same_words(tuning), stolen_words(tuning)],
        fusion=fusion,
        fused=None if fusion is None else other_tables.sites_table(fusion),
        drawings=[(site, drawing(site.before), drawing(site.after)) for site in sites],
        undrawn=[] if fusion is None else [site.id for site in fusion.sites if site.id not in drawn],
        commands=(verify_command(result),) if commands is None else tuple(commands),
    )


def _charts(lines: list[ErrorLine], latency: LatencyResult | None) -> list[tuple[str, Markup]]:
    """Return title and SVG of each chart, ratios before milliseconds."""
    charts = [("Error over what is allowed", error_svg(lines))] if any(line.points for line in lines) else []
    if latency is not None:
        drawn = (("Speed", speed_svg(latency)), ("Time of a run", latency_svg(latency)))
        charts += [(title, svg) for title, svg in drawn if svg is not None]
    return [(title, Markup(svg)) for title, svg in charts]  # so that the template does not escape it


@cache
def template(name: str) -> Template:
    """Return a template of the pages."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ffn_export.reports.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template(name)


def _shown(value: Any) -> Any:
    """Return a value for the template, with control characters escaped in text, which may come from a file."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _breakable(text: str) -> Markup:
    """Let a long name be broken behind its dots, slashes and underscores, in a table that has no room for it."""
    escaped = str(escape(visible(text)))
    return Markup(_LONG_NAME.sub(lambda name: _PARTS.sub(r"\g<0><wbr>", name[0]), escaped))
