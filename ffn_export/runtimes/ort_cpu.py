"""ONNX Runtime on its CPU execution provider."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter import onnx_file
from ffn_export.runtimes import ort_session
from ffn_export.runtimes.base import Array, Artifact, Runner
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.precision import described, graph_dtypes
from ffn_export.runtimes.session_options import SessionSettings

PROVIDER = ort_session.CPU.name


class OrtCpu:
    """The runtime ``ort-cpu``."""

    name = "ort-cpu"
    by_default = True
    last_resort = False

    def unavailable(self, artifact: Artifact) -> str | None:
        """Missing package or no model; what onnxruntime has no kernels for, only loading tells."""
        return ort_session.missing(artifact)

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make a session with the artifact's settings."""
        reason = self.unavailable(artifact)
        if reason is not None or artifact.model_path is None:
            raise RuntimeUnavailableError(reason)
        session = make_session(artifact.model_path, artifact.settings, threads)
        return OrtRunner(session, described(graph_dtypes(onnx_file.load(artifact.model_path))))


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
