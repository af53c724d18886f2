"""Select the runtimes that judge a model: those requested by name, or all that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.parity.judging.result import CaseResult
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.one_run import LoadedForEachRun
from ffn_export.runtimes.registry import RUNTIMES, get_runtimes


def load(
    artifact: Artifact, names: Sequence[str] | None, threads: int, *, for_each_run: bool
) -> tuple[dict[str, Runner], list[CaseResult], dict[str, str]]:
    """Load the model in each runtime.

    Args:
        artifact: The model.
        names: Names of the runtimes that must load it; None means every default runtime that can.
        threads: Intra-op threads.
        for_each_run: Whether a runner loads the model for each run and lets go of it, to need less memory.

    Returns:
        Loaded runners by name, results of runtimes that reject the model, and runtime -> why it cannot run it here.

    Raises:
        RuntimeUnavailableError: If a runtime requested by name cannot run here.
        UsageError: If the name of a runtime is unknown.
    """

    def runner(runtime: Runtime) -> Runner:
        return LoadedForEachRun(runtime, artifact, threads) if for_each_run else runtime.load(artifact, threads)

    if names is not None:
        return *_load_named(runner, names), {}
    loaded, unavailable = _load_able(runner, [r for r in RUNTIMES.values() if r.by_default])
    if not loaded:  # a slow judge is better than none
        loaded, also = _load_able(runner, [r for r in RUNTIMES.values() if r.last_resort])
        unavailable |= also
    return loaded, [], unavailable


def _load_named(load: Callable[[Runtime], Runner], names: Sequence[str]) -> tuple[dict[str, Runner], list[CaseResult]]:
    """Load the requested runtimes. A model that one of them rejects has failed; a missing runtime is an error."""
    loaded: dict[str, Runner] = {}
    broken: list[CaseResult] = []
    for runtime in get_runtimes(names):
        try:
            loaded[runtime.name] = load(runtime)
        except RuntimeUnavailableError as error:
            raise RuntimeUnavailableError(
                f"runtime {runtime.name!r} is not available here: {error}", runtime.name
            ) from error
        except FfnExportError as error:
            broken.append(CaseResult(runtime.name, "loading the model", {}, "none", 0, error=str(error)))
    return loaded, broken


def _load_able(
    load: Callable[[Runtime], Runner], runtimes: Sequence[Runtime]
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Load the runtimes that can run the model here, and record why the others cannot."""
    loaded: dict[str, Runner] = {}
    unavailable: dict[str, str] = {}
    for runtime in runtimes:
        try:
            loaded[runtime.name] = load(runtime)
        except FfnExportError as error:
            unavailable[runtime.name] = str(error)
    return loaded, unavailable
