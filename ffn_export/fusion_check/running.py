"""Run models without optimisation in ONNX Runtime, or in ONNX's reference evaluator if it lacks a kernel."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError
from ffn_export.fusion_check.limits import OutOfTimeError
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.captured_stderr import captured_stderr
from ffn_export.runtimes.ended_run import DidNotEndError
from ffn_export.runtimes.model_files import ModelFiles
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings

ORT, EVALUATOR = OrtCpu(), OnnxEvaluator()


class RefusedError(Exception):
    """A runtime does not load or run a model; the message is one line."""


Run = Callable[[Mapping[str, Array]], dict[str, Array]]
"""Runs a loaded model once; the argument and the result are by name.

Raises:
    RefusedError: If the model does not run on these inputs.
    OutOfTimeError: If the run does not end.
"""


class Runtimes:
    """Loads one model at a time, from temporary files."""

    def __init__(self, directory: Path, threads: int) -> None:
        self._directory = directory
        self._files = ModelFiles(directory)
        self._threads = threads

    def write(self, model: ir.Model) -> Path:
        """Write a model to a file that lasts as long as the runtimes; its weights refer to a file afterwards."""
        return self._files.write(model)

    @contextmanager
    def loaded(self, model: ir.Model, runtime: Runtime, settings: SessionSettings = NO_OPTIMIZER) -> Iterator[Run]:
        """Yield the function that runs a model in a runtime, which releases it at the end of the block.

        The model is modified: its weights refer to a file, or to memory, afterwards.

        Raises:
            RefusedError: If the runtime does not load it.
        """
        try:
            if runtime is ORT and settings.graph_optimization_level == "disable_all":
                path, weights = self._files.write_without_weights(model)
            else:
                path, weights = self._files.write(model), {}
            with captured_stderr():
                runner = runtime.load(Artifact(path, settings=settings, weights=weights), self._threads)
        except Exception as error:
            expose_own(error)
            line = str(error) if isinstance(error, FfnExportError) else first_line(error)
            raise RefusedError(line.replace(f"{self._directory}/", "")) from error
        try:
            yield partial(_run, runner)
        finally:
            del runner
            path.unlink()
            gc.collect(0)


def _run(runner: Runner, feeds: Mapping[str, Array]) -> dict[str, Array]:
    try:
        with captured_stderr():
            return runner.run(feeds)
    except DidNotEndError as error:
        raise OutOfTimeError(f"running it was given up: {error}") from error
    except Exception as error:  # onnxruntime's own exceptions derive from Exception alone
        expose_own(error)
        raise RefusedError(first_line(error)) from error


@contextmanager
def runtimes(threads: int) -> Iterator[Runtimes]:
    """Yield the runtimes of one check; their files are deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="ffn-export-check-") as scratch:
        yield Runtimes(Path(scratch), threads)
