"""Which runtimes judge a model: those asked for by name, or all that can."""

from __future__ import annotations

from collections.abc import Sequence

from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.parity.judging.result import CaseResult
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.registry import RUNTIMES, get_runtimes


def load(
    artifact: Artifact, names: Sequence[str] | None, threads: int
) -> tuple[dict[str, Runner], list[CaseResult], dict[str, str]]:
    """Load each runtime: those that run, those that fail on this model, those that cannot run it here.

    Raises:
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
        UsageError: If a runtime's name is unknown.
    """
    if names is not None:
        return *_load_named(artifact, names, threads), {}
    loaded, unavailable = _load_able(artifact, [r for r in RUNTIMES.values() if r.by_default], threads)
    if not loaded:  # a slow judge is better than none
        loaded, also = _load_able(artifact, [r for r in RUNTIMES.values() if r.last_resort], threads)
        unavailable |= also
    return loaded, [], unavailable


def _load_named(artifact: Artifact, names: Sequence[str], threads: int) -> tuple[dict[str, Runner], list[CaseResult]]:
    """Load what was asked for: a model that one of them refuses has failed, and one that is not here is an error."""
    loaded: dict[str, Runner] = {}
    broken: list[CaseResult] = []
    for runtime in get_runtimes(names):
        try:
            loaded[runtime.name] = runtime.load(artifact, threads)
        except RuntimeUnavailableError as error:
            raise RuntimeUnavailableError(f"runtime {runtime.name!r} is not available here: {error}") from error
        except FfnExportError as error:
            broken.append(CaseResult(runtime.name, "loading the model", {}, "none", 0, error=str(error)))
    return loaded, broken


def _load_able(
    artifact: Artifact, runtimes: Sequence[Runtime], threads: int
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Load those that can run the model here, and note why the others cannot."""
    loaded: dict[str, Runner] = {}
    unavailable: dict[str, str] = {}
    for runtime in runtimes:
        try:
            loaded[runtime.name] = runtime.load(artifact, threads)
        except FfnExportError as error:
            unavailable[runtime.name] = str(error)
    return loaded, unavailable
