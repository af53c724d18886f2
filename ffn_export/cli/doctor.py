"""``ffn-export doctor``."""

from __future__ import annotations

import click

from ffn_export.cli.options import common


@click.command("doctor")
@common
def command() -> int:
    """Say what works on this machine.

    Versions that fit, runtimes, both onnxruntime wheels at once, GPU libraries.

    Exit status 1 if something needs mending.

    Example: ffn-export doctor
    """
    from ffn_export.reports.console import stdout_console
    from ffn_export.reports.tables import findings_table
    from ffn_export.runtimes.diagnosis import diagnose

    findings = diagnose()
    stdout_console().print(findings_table([(f.subject, f.verdict, f.detail) for f in findings]))
    return 1 if any(finding.verdict == "problem" for finding in findings) else 0
