"""``ffn-export doctor``."""

from __future__ import annotations

import click

from ffn_export.cli.help import Command
from ffn_export.cli.options import common
from ffn_export.cli.report_files import json_option, show


@click.command(
    "doctor",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "doctor",
        "doctor -v",
        "doctor --json -",
    ),
)
@json_option
@common
def command(json_path: str | None) -> int:
    """Say what works on this machine.

    Versions that fit, runtimes, both onnxruntime wheels at once, GPU libraries.

    Exit status 1 if something needs mending.
    """
    from ffn_export.reports.tables import findings_table
    from ffn_export.runtimes.diagnosis import diagnose

    findings = diagnose()
    table = findings_table(findings)
    show({"findings": [finding._asdict() for finding in findings]}, table, json_path)
    return 1 if any(finding.verdict == "problem" for finding in findings) else 0
