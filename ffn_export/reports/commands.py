"""The command that does a verification again, for a reader who wants to see it himself."""

from __future__ import annotations

import shlex

from ffn_export.parity.judging.result import ParityResult


def verify_command(result: ParityResult) -> str:
    """Return a line for the shell, as far as the result knows what was asked for.

    Its runtimes are those that judged, so that one which is missing elsewhere is told and not left out. Inputs that
    were given, and the directory of the model, are for the reader to fill in.
    """
    words = ["ffn-export", "verify", result.model, "--against", result.against]
    for runtime in result.judged:
        words += ["--runtime", runtime]
    seed = min((case.seed for case in result.cases if case.values not in ("given", "none")), default=0)
    if seed:
        words += ["--seed", str(seed)]
    if result.environment is not None:
        words += ["--threads", str(result.environment.threads)]
    return shlex.join(words)
