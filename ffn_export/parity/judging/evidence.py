"""Files that a verification writes for a case: failing inputs as test vectors, or all inputs and outputs."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.core import vectors
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.parity.cases.case import Case
from ffn_export.parity.judging.result import CaseResult
from ffn_export.parity.judging.tolerances import Tolerances


@dataclass(frozen=True)
class Evaluated:
    """One case that was run.

    Attributes:
        case: The case.
        feeds: Input name -> array.
        truths: Output name -> the oracle's array.
        outputs: Runtime -> output name -> array, without runtimes that raised.
        results: One result for each runtime.
    """

    case: Case
    feeds: Mapping[str, Array]
    truths: Mapping[str, Array]
    outputs: Mapping[str, Mapping[str, Array]]
    results: tuple[CaseResult, ...]


@dataclass
class FailingInputs:
    """Writes the inputs of failing cases as ONNX test vectors: ``DIRECTORY/CASE/test_data_set_0/input_0.pb``.

    The expected outputs are those of the oracle, cast to the dtypes of the graph.

    Attributes:
        directory: Destination, created when the first case fails.
        tolerances: Tolerances that decide what a failure is.
        most: Largest number of cases to write, since a broken model fails in all of them.
        problem: Reason why writing failed, or None.
    """

    directory: Path
    tolerances: Tolerances
    most: int = 3
    problem: str | None = None
    _written: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, evaluated: Evaluated) -> tuple[CaseResult, ...]:
        """Write the case if it failed on a runtime."""
        failing = [r for r in evaluated.results if r.skipped is None and r.failure(self.tolerances) is not None]
        with self._lock:
            if not failing or self._written >= self.most or self.problem is not None:
                return evaluated.results
            self._written += 1
        target = self.directory / slug(evaluated.case.name)
        dtypes = {name: array.dtype for each in evaluated.outputs.values() for name, array in each.items()}
        expected = {name: array.astype(dtypes.get(name, array.dtype)) for name, array in evaluated.truths.items()}
        try:
            target.mkdir(parents=True, exist_ok=True)
            vectors.write(target, evaluated.feeds, expected)
        except OSError as error:
            self.problem = f"{self.directory} cannot be written to: {error.strerror or error}"
            return evaluated.results
        saved = str(target / vectors.DIRECTORY)
        return tuple(replace(r, saved=saved) if r in failing else r for r in evaluated.results)


@dataclass(frozen=True)
class AllOutputs:
    """Writes every case: ``DIRECTORY/CASE/inputs.npz``, ``oracle.npz`` and one file for each runtime."""

    directory: Path

    def keep(self, evaluated: Evaluated) -> tuple[CaseResult, ...]:
        """Write the case.

        Raises:
            UsageError: If the directory cannot be written to.
        """
        target = self.directory / slug(evaluated.case.name)
        files = {"inputs": evaluated.feeds, "oracle": evaluated.truths, **evaluated.outputs}
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, arrays in files.items():
                plain: dict[str, Any] = {key: _plain(array) for key, array in arrays.items()}
                np.savez(target / f"{name}.npz", **plain)
        except OSError as error:
            raise UsageError(f"{self.directory} cannot be written to: {error.strerror or error}") from error
        return evaluated.results


Keeper = FailingInputs | AllOutputs
"""Stores data of every case, and returns its results, annotated where needed."""


def slug(name: str) -> str:
    """Return a name in a form that is valid for a directory."""
    return re.sub(r"[^\w.=,-]+", "-", name)


def _plain(array: Array) -> Array:
    """Cast bfloat16 to float32 without loss, since ``.npz`` files cannot store bfloat16."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
