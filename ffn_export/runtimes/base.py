"""The interface of a runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ffn_export.core.types import Array
from ffn_export.runtimes.session_options import SessionSettings

if TYPE_CHECKING:
    from ffn_export.exporter.source import Source


@dataclass(frozen=True)
class Artifact:
    """What a runtime may be asked to run: the ONNX file, and the PyTorch source where there is one.

    Attributes:
        model_path: The ONNX file.
        source: What it was exported from.
        settings: The session options.
        weights: Initialisers that the ONNX file names as external data, and that are in memory: name -> array.
            Only ONNX Runtime takes them so, reads them in place, and has no optimiser that could look at them.
    """

    model_path: Path | None = None
    source: Source | None = None
    settings: SessionSettings = field(default_factory=SessionSettings)
    weights: Mapping[str, Array] = field(default_factory=dict, repr=False)


class Runner(Protocol):
    """A loaded model, ready to run."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once: name -> array in, name -> array out."""
        ...

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call that runs once on inputs which are already in place: what latency times.

        It returns when the outputs are computed. Where there is a device to wait for, the call waits for it explicitly.
        """
        ...

    def placement(self) -> dict[str, int]:
        """Return device or execution provider -> number of nodes that run there."""
        ...

    def precision(self) -> str:
        """Return the floating-point dtypes that it computes in, such as ``float32``, by the best proof that it has."""
        ...


@runtime_checkable
class CopyingRunner(Runner, Protocol):
    """A runner whose device has memory of its own: what is on the host has to be copied there and back."""

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call that copies the inputs from host memory, runs once, and copies the outputs to host memory.

        It returns when the outputs are there. ``prepare`` gives the same without the copies.
        """
        ...


class Runtime(Protocol):
    """Something that can run a model.

    Attributes:
        name: What the command line calls it.
        by_default: Whether it judges and is timed without being asked for by name.
        last_resort: Whether it judges unasked where none of those that do so by default can load the model.
        runs_module: Whether it runs the PyTorch module, and not the model.
    """

    name: str
    by_default: bool
    last_resort: bool
    runs_module: bool

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why it cannot run this artifact here, as far as is known without loading it, or None."""
        ...

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Load an artifact with a number of intra-op threads.

        Raises:
            RuntimeUnavailableError: If it cannot run the artifact here; the message is the reason alone.
            UsageError: If it refuses the model.
        """
        ...
