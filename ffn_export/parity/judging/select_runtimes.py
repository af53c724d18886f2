"""Select the runtimes that judge a model: those requested by name, or all that can."""

from __future__ import annotations

from collections.abc import Sequence

from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.parity.judging.result import CaseResult
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.registry import RUNTIMES, get_runtimes


def load(
    artifact: Artifact, names: Sequence[str] | None, threads: int
) -> tuple[dict[str, Runner], list[CaseResult], dict[str, str]]:
    """Load the model in each runtime.

    Returns:
        Loaded runners by name, results of runtimes that reject the model, and runtime -> why it cannot run it here.

    Raises:
        RuntimeUnavailableError: If a runtime requested by name cannot run here.
        UsageError: If the name of a runtime is unknown.
    """
    if names is not None:
        return *_load_named(artifact, names, threads), {}
    loaded, unavailable = _load_able(artifact, [r for r in RUNTIMES.values() if r.by_default], threads)
    if not loaded:  # a slow judge is better than none
        loaded, also = _load_able(artifact, [r for r in RUNTIMES.values() if r.last_resort], threads)
        unavailable |= also
    return loaded, [], unavailable


def _load_named(artifact: Artifact, names: Sequence[str], threads: int) -> tuple[dict[str, Runner], list[CaseResult]]:
    """Load the requested runtimes. A model that one of them rejects has failed; a missing runtime is an error."""
    loaded: dict[str, Runner] = {}
    broken: list[CaseResult] = []
    for runtime in get_runtimes(names):
        try:
            loaded[runtime.name] = runtime.load(artifact, threads)
        except RuntimeUnavailableError as error:
            raise RuntimeUnavailableError(
                f"runtime {runtime.name!r} is not available here: {error}", runtime.name
            ) from error
        except FfnExportError as error:
            broken.append(CaseResult(runtime.name, "loading the model", {}, "none", 0, error=str(error)))
    return loaded, broken


def _load_able(
    artifact: Artifact, runtimes: Sequence[Runtime], threads: int
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Load the runtimes that can run the model here, and record why the others cannot."""
    loaded: dict[str, Runner] = {}
    unavailable: dict[str, str] = {}
    for runtime in runtimes:
        try:
            loaded[runtime.name] = runtime.load(artifact, threads)
        except FfnExportError as error:
            unavailable[runtime.name] = str(error)
    return loaded, unavailable
