"""Escape untrusted text, so that it cannot control a terminal or a CI runner.

A name in a model can hold line breaks, escape sequences, characters that reverse the writing direction, and commands
that CI systems read from a log: ``::error``, ``##vso[...]``. The console, standard error and each report format apply
one of these functions.
"""

from __future__ import annotations

import re

# C0, DEL and C1; line and paragraph separators; marks, embeddings, overrides and isolates of the writing direction;
# lone surrogates.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_CONTROL_IN_LINES = re.compile(f"(?![\n\t])[{_CONTROLS}]")
# GitHub reads `::` at the start of a line, after white space. Terminal colours before it are matched too.
_LINE_COMMAND = re.compile(r"^((?:[^\S\n]|\x1b\[[0-9;]*m)*):(?=:)", re.MULTILINE)
# GitHub and Azure read `##[` and `##vso[` anywhere in a line, TeamCity `##teamcity[`.
_COMMAND = re.compile(r"#(?=#\w*\[)")


def visible(text: str) -> str:
    r"""Return text on one line, with each control character escaped, such as ``\n`` or ``\x1b``."""
    return _CONTROL.sub(_escape, text)


def safe_lines(text: str) -> str:
    """Return text of several lines, such as a report, with other control characters and CI commands escaped."""
    return without_commands(_CONTROL_IN_LINES.sub(_escape, text))


def without_commands(text: str) -> str:
    """Return text with CI commands escaped."""
    return _COMMAND.sub(r"\\x23", _LINE_COMMAND.sub(r"\1\\x3a", text))


def safe_json(text: str) -> str:
    """Escape ASCII JSON text, so that it cannot control a terminal or a CI runner; its data stays the same.

    JSON escapes C0 already, and no line of JSON starts with ``::``.
    """
    return _COMMAND.sub(r"\\u0023", text.replace("\x7f", r"\u007f"))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
