"""A verification as Markdown, for the summary of a CI job.

``ffn-export verify model.onnx --markdown - >> $GITHUB_STEP_SUMMARY``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ffn_export.core.plain_text import visible
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports import overview
from ffn_export.reports.bisection import FURTHER, further_rows, how, part_rows
from ffn_export.reports.commands import verify_command
from ffn_export.reports.formats import Verification
from ffn_export.reports.markdown_table import markdown_table

# GitHub shows a job summary of at most 1 MiB, and nothing of a longer one.
MOST_LINES = 200

# Characters with a meaning in Markdown or its HTML, anywhere in a line.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#~&])")
# Text that GitHub links without markup: a mention, an address. An HTML comment, which is invisible, prevents it.
_LINKED = re.compile(r"@(?=\w)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)


def verification_markdown(verification: Verification) -> str:
    """Return the verdict, a row for each runtime, failures and warnings, and the commands to repeat it."""
    result, commands = verification.result, verification.commands
    commands = (verify_command(result),) if commands is None else commands
    return "\n".join(_blocks(result, commands, verification.bisection))


def _blocks(result: ParityResult, commands: Sequence[str], bisection: Bisection | None) -> Iterator[str]:
    verdict = "✅ Passed" if result.passed else "❌ Failed"
    warned = f", ⚠️ {len(result.warnings)} warned" if result.passed and result.warnings else ""
    allowed = f", {_plain(result.allowance)}" if result.allowance else ""
    yield f"## {verdict}{warned}{allowed}: parity of {_plain(result.model)} against {_plain(result.against)}\n"
    yield f"{_plain(overview.verdict_sentence(result))}\n"
    if result.cases:
        yield _runtimes(result)
    yield _table(("check", "verdict", "found"), overview.check_rows(result))
    yield from _listed("Failures", result.failures)
    if bisection is not None:
        yield from _bisected(bisection)
    yield from _listed("Warnings", result.warnings)
    yield from _listed("Notes", result.notes)
    yield "### To reproduce\n"
    yield _code(commands)
    yield f"<sub>{_plain(overview.legend(result.tolerances))}</sub>\n"
    yield f"<sub>{_plain(overview.environment_words(result.environment))}</sub>\n"


def _runtimes(result: ParityResult) -> str:
    numbers = (*overview.STATUSES, *overview.ERRORS)
    rows = (row.cells for row in overview.runtime_rows(result))
    return _table(("runtime", "verdict", *numbers, "worst case"), rows, numbers)


def _bisected(bisection: Bisection) -> Iterator[str]:
    yield f"### Where it went wrong\n\n{_plain(bisection.reason)}\n"
    if bisection.part is not None:
        yield _table(("guilty", ""), part_rows(bisection.part))
    if bisection.further:
        yield _table(FURTHER, further_rows(bisection.further))
    yield f"<sub>{_plain(how(bisection))}</sub>\n"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Return a table whose text shows literally."""
    return markdown_table(headers, (list(map(_plain, row)) for row in rows), numbers)


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    yield f"### {title}\n"
    yield "".join(f"- {_plain(line)}\n" for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield f"… and {len(lines) - MOST_LINES} more.\n"


def _code(commands: Sequence[str]) -> str:
    """Return a fenced code block, with a fence longer than any in the text."""
    text = "\n".join(map(visible, commands))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}sh\n{text}\n{fence}\n"


def _plain(text: str) -> str:
    """Return text on one line, escaped to show literally."""
    return _LINKED.sub(r"\g<0><!-- -->", _SPECIAL.sub(r"\\\1", visible(" ".join(text.split()))))
