"""A model that is in memory only while it runs, for models that are compared and need not be there together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ffn_export.core import freed
from ffn_export.core.types import Array
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.ended_run import DidNotEndError


class LoadedForEachRun:
    """A runner that loads its model for each run and lets go of it.

    Raises:
        RuntimeUnavailableError: If the runtime cannot run the model here.
        UsageError: If the runtime refuses the model.
    """

    def __init__(self, runtime: Runtime, artifact: Artifact, threads: int) -> None:
        artifact = replace(artifact, settings=artifact.settings.without_arena())
        loaded = runtime.load(artifact, threads)
        self._placement, self._precision = loaded.placement(), loaded.precision()
        again = replace(artifact, precision=self._precision)
        self._load: Callable[[], Runner] = lambda: runtime.load(again, threads)
        self._ended: DidNotEndError | None = None

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Load the model and run once.

        Raises:
            DidNotEndError: If this run, or an earlier one, exceeded the CPU time for the size of the model.
        """
        if self._ended is not None:
            raise DidNotEndError(f"it was not run: on other inputs {self._ended}")
        try:
            # An output of ONNX Runtime holds the memory that its session has taken for a run.
            return {name: array.copy() for name, array in self._load().run(feeds).items()}
        except DidNotEndError as error:
            self._ended = error
            raise
        finally:
            freed.now(generation=1)

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of the model, which stays loaded as long as the call."""
        return self._load().prepare(feeds)

    def placement(self) -> dict[str, int]:
        """Return device or execution provider -> number of nodes that run there."""
        return self._placement

    def precision(self) -> str:
        """Return the floating-point dtypes of the computation."""
        return self._precision
