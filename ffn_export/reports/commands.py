"""The command that repeats a verification."""

from __future__ import annotations

import shlex

from ffn_export.parity.judging.result import ParityResult


def verify_command(result: ParityResult) -> str:
    """Return the shell command, as far as the result records its options.

    It names the runtimes that judged, so that one that is missing elsewhere is an error and not left out. The reader
    adds given inputs and the directory of the model.
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
