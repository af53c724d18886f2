"""A verification as annotations of GitHub Actions: a line for each failed or warned case and check.

GitHub shows the line ``::error file=F,title=T::message`` of a job's log at the file. Such lines are commands, so this
is the only format that is written without escaping them; the text between is escaped here.
"""

from __future__ import annotations

from ffn_export.core.plain_text import visible, without_commands
from ffn_export.reports.findings import findings, model_file
from ffn_export.reports.formats import Verification

# As @actions/core escapes them: these in the message, and these too in a property.
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def verification_github(verification: Verification) -> str:
    """Return the annotations; empty if nothing failed and nothing is warned."""
    file = _escaped(model_file(verification), _IN_PROPERTY)
    lines = (
        f"::{found.level} file={file},title={_escaped(found.title, _IN_PROPERTY)}::"
        f"{_escaped(found.message, _IN_MESSAGE)}\n"
        for found in findings(verification.result)
    )
    return "".join(lines)


def _escaped(text: str, escapes: dict[int, str]) -> str:
    return without_commands(visible(text)).translate(escapes)
