"""ONNX Runtime on its CPU execution provider."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.runtimes.base import Array, Artifact, Runner
from ffn_export.runtimes.session_options import SessionSettings

if TYPE_CHECKING:
    import onnxruntime

PROVIDER = "CPUExecutionProvider"


class OrtCpu:
    """The runtime ``ort-cpu``."""

    name = "ort-cpu"

    def unavailable(self, artifact: Artifact) -> str | None:
        """Missing package, no model, or a model that onnxruntime does not load."""
        try:
            import onnxruntime  # noqa: F401
        except ImportError as error:
            return f"onnxruntime is not installed ({error})"
        return "there is no ONNX model to run" if artifact.model_path is None else None

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make a session with the artifact's settings."""
        reason = self.unavailable(artifact)
        if reason is not None or artifact.model_path is None:
            raise RuntimeUnavailableError(f"{self.name}: {reason}")
        return OrtRunner(make_session(artifact.model_path, artifact.settings, threads))


class OrtRunner:
    """A session that takes and gives arrays by name."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.session = session
        self._outputs = [output.name for output in session.get_outputs()]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once."""
        results: Sequence[Any] = self.prepare(feeds)()
        return dict(zip(self._outputs, map(np.asarray, results), strict=True))

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of the session on arrays that are already there."""
        if any(array.dtype.name == "bfloat16" for array in feeds.values()):
            raise RuntimeUnavailableError("ort-cpu: onnxruntime's Python API takes no bfloat16 arrays")
        run, names, inputs = self.session.run, self._outputs, dict(feeds)
        return lambda: run(names, inputs)

    def placement(self) -> dict[str, int]:
        """Return provider -> nodes, as the session itself recorded its assignment."""
        placed: Counter[str] = Counter()
        for assigned in self.session.get_provider_graph_assignment_info():
            placed[assigned.ep_name] += len(assigned.get_nodes())
        return dict(placed)


def make_session(
    path: Path, settings: SessionSettings, threads: int | None = None, profile_prefix: str | None = None
) -> onnxruntime.InferenceSession:
    """Load a model on the CPU provider alone.

    Raises:
        UsageError: If onnxruntime refuses the model; the message is its first line.
    """
    import onnxruntime

    options = settings.session_options(threads)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=[PROVIDER])
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"onnxruntime does not load {path.name}: {reason}") from error


@dataclass(frozen=True)
class Kernel:
    """One kernel that ran: its operator and its execution provider."""

    operator: str
    provider: str


def executed_kernels(path: Path, settings: SessionSettings, feeds: Mapping[str, Array]) -> tuple[Kernel, ...]:
    """Run a model once under the profiler and return the kernels that ran, in order.

    This is what the runtime really executes, after its own rewriting and with functions inlined.
    """
    with tempfile.TemporaryDirectory() as scratch:
        session = make_session(path, settings, threads=1, profile_prefix=str(Path(scratch) / "profile"))
        OrtRunner(session).run(feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    return tuple(
        Kernel(event["args"]["op_name"], event["args"]["provider"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    )
