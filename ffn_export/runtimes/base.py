"""The interface of a runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes.session_options import SessionSettings

if TYPE_CHECKING:
    from ffn_export.exporter.source import Source


@dataclass(frozen=True)
class Artifact:
    """The input of a runtime: an ONNX file, and its PyTorch source if it has one.

    Attributes:
        model_path: The ONNX file.
        source: The source that it was exported from.
        settings: The session options.
        weights: Initializers in memory that the ONNX file names as external data: name -> array. Only ONNX Runtime
            takes them, reading them in place, and only with its optimiser off, which would read the file.
        precision: What the runner said of its precision when it was loaded before: ``ort-cpu`` then reads the graph
            no further than ONNX Runtime does. None if it was not.
    """

    model_path: Path | None = None
    source: Source | None = None
    settings: SessionSettings = field(default_factory=SessionSettings)
    weights: Mapping[str, Array] = field(default_factory=dict, repr=False)
    precision: str | None = None


class Runner(Protocol):
    """A loaded model, ready to run."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once: name -> array in, name -> array out."""
        ...

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call that runs once on inputs that are already in place, for timing.

        The call returns when the outputs are computed. If they are computed on a device, it waits explicitly.
        """
        ...

    def placement(self) -> dict[str, int]:
        """Return device or execution provider -> number of nodes that run there."""
        ...

    def precision(self) -> str:
        """Return the floating-point dtypes of the computation, such as ``float32``, by the best available proof."""
        ...


@runtime_checkable
class CopyingRunner(Runner, Protocol):
    """A runner on a device with its own memory: inputs are copied to it, and outputs back to the host."""

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call that copies the inputs from host memory, runs once, and copies the outputs to host memory.

        The call returns when the outputs are in host memory. ``prepare`` returns the same call without copies.
        """
        ...


class Runtime(ABC):
    """Software that can run a model or a module.

    Attributes:
        name: Name on the command line.
        by_default: Whether it judges and is timed without being asked for by name.
        last_resort: Whether it judges, unasked, a model that no default runtime can load.
        runs_module: Whether it runs the PyTorch module instead of the model.
        has_ort_kernels: Whether it runs the kernels of ONNX Runtime: their known errors are excused, and its default
            session on the plain export is timed beside it.
    """

    name: str
    by_default: bool = False
    last_resort: bool = False
    runs_module: bool = False
    has_ort_kernels: bool = False

    @abstractmethod
    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the runtime cannot run this artifact here, as far as is known before loading, or None."""

    @abstractmethod
    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Load an artifact with a number of intra-op threads.

        Raises:
            RuntimeUnavailableError: If the runtime cannot run the artifact here; the message is only the reason.
            UsageError: If the runtime refuses the model.
        """

    def model_of(self, artifact: Artifact) -> Path:
        """Return the file of an artifact that the runtime can run here.

        Raises:
            RuntimeUnavailableError: If it cannot, as far as is known before loading.
        """
        reason = self.unavailable(artifact)
        if reason is not None or artifact.model_path is None:
            raise RuntimeUnavailableError(reason)
        return artifact.model_path
