"""ONNX Runtime on its CPU execution provider."""

from __future__ import annotations

from ffn_export.core import onnx_file
from ffn_export.runtimes import ort_session
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.precision import described, graph_dtypes


class OrtCpu(Runtime):
    """The runtime ``ort-cpu``."""

    name = "ort-cpu"
    by_default = True
    has_ort_kernels = True

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the package or model is missing, or None; missing kernels show only in loading."""
        return ort_session.missing(artifact)

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make a session with the artifact's settings."""
        path = self.model_of(artifact)
        session = make_session(path, artifact.settings, threads, weights=artifact.weights)
        precision = artifact.precision
        if precision is None:
            precision = described(graph_dtypes(onnx_file.load(path, artifact.weights)))
        return OrtRunner(session, precision, ends=True)
