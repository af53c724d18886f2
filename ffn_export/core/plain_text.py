"""Text that may come from a file, made safe to show: nothing in it controls a terminal or a CI runner.

A name in a model can hold line breaks, escape sequences, characters that reverse the order of what follows, and the
commands that CI systems read off a log: ``::error``, ``##vso[...]``. Every place that writes text applies one of these
functions: the console, standard error, and each report format.
"""

from __future__ import annotations

import re

# C0, DEL and C1; line and paragraph separators; marks, embeddings, overrides and isolates of writing direction; lone
# surrogates.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_CONTROL_IN_LINES = re.compile(f"(?![\n\t])[{_CONTROLS}]")
# GitHub reads `::` at the start of a line, past white space and, here, the colours of a terminal.
_LINE_COMMAND = re.compile(r"^((?:[^\S\n]|\x1b\[[0-9;]*m)*):(?=:)", re.MULTILINE)
# GitHub and Azure read `##[` and `##vso[` anywhere in a line, TeamCity `##teamcity[`.
_COMMAND = re.compile(r"#(?=#\w*\[)")


def visible(text: str) -> str:
    r"""Return text on one line, with each control character written as its escape, such as ``\n`` or ``\x1b``."""
    return _CONTROL.sub(_escape, text)


def safe_lines(text: str) -> str:
    """Return text of several lines, such as a report: other controls are escaped, and no line is a CI command."""
    return without_commands(_CONTROL_IN_LINES.sub(_escape, text))


def without_commands(text: str) -> str:
    """Return text in which a CI system reads no command."""
    return _COMMAND.sub(r"\\x23", _LINE_COMMAND.sub(r"\1\\x3a", text))


def safe_json(text: str) -> str:
    """Return JSON of ASCII characters without anything that controls a terminal or a CI runner; its data is the same.

    JSON escapes C0 itself, and lines that start with ``::`` are not JSON.
    """
    return _COMMAND.sub(r"\\u0023", text.replace("\x7f", r"\u007f"))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
