"""ONNX Runtime on a GPU's execution provider only: each node is proven to run there, else ``unavailable``.

onnxruntime makes it easy to report a CPU's number as a GPU's: it lists CUDA as available without a
driver, and a session for CUDA falls back to the CPU with only a line in the log. So this module

1. tries the provider on a model of one node,
2. forbids sessions to fall back,
3. reads the assignment of each node.

Nodes that compute with sizes alone may be on the CPU, where onnxruntime keeps them on purpose.

A bundle that needs none of this is loaded without onnx, which is therefore imported late.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffn_export.core.one_line import root_cause
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError, RuntimeUnavailableError, UsageError
from ffn_export.runtimes import ort_session
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.captured_stderr import captured_stderr
from ffn_export.runtimes.ort_session import OrtRunner, Provider, make_session, operators_by_provider
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings

if TYPE_CHECKING:
    import onnxruntime

_NO_FALLBACK: Mapping[str, str] = {"session.disable_cpu_ep_fallback": "1"}
_FALLBACK_REFUSED = "fallback to CPU EP has been explicitly disabled"
_LONGEST = 200
# ONNX's text: <ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) {y = Add(x, x)}
_TWICE = bytes.fromhex(
    "080a3a370a100a01780a017812017922034164643a001201675a0f0a0178120a0a08080112040a020802620f0a0179120a0a"
    "08080112040a02080242040a001014"
)


@dataclass(frozen=True)
class Accelerator:
    """An execution provider on a GPU.

    Attributes:
        label: Name in messages.
        name: Name in ONNX Runtime.
        options: Provider options.
    """

    label: str
    name: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def strict(self) -> Provider:
        """The provider for sessions that must not fall back to the CPU."""
        return Provider(self.name, dict(self.options), _NO_FALLBACK)

    @property
    def lenient(self) -> Provider:
        """The provider for sessions that may fall back, which record the assignment of each node."""
        return Provider(self.name, dict(self.options))


class OrtAccelerator(Runtime):
    """A runtime on one accelerator, which its subclass sets."""

    accelerator: Accelerator

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why a package, model, GPU or library is missing, or None; node placement shows only in loading."""
        return ort_session.missing(artifact) or provider_problem(self.accelerator)

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make a session and prove that all nodes are on the GPU, except those that compute with sizes alone."""
        from ffn_export.core import onnx_file
        from ffn_export.runtimes.precision import described, graph_dtypes

        session = self.proven_session(artifact, threads)
        assert artifact.model_path is not None
        dtypes = described(graph_dtypes(onnx_file.load(artifact.model_path)))
        return OrtGpuRunner(session, f"{dtypes}, TF32 off")

    def proven_session(self, artifact: Artifact, threads: int) -> onnxruntime.InferenceSession:
        """Make the session of :meth:`load`.

        Raises:
            RuntimeUnavailableError: If the provider does not start, or a node is placed elsewhere.
            UsageError: If onnxruntime refuses the model.
        """
        session, allowed = _session(self.accelerator, self.model_of(artifact), artifact.settings, threads)
        reason = node_elsewhere(self.accelerator, session, allowed)
        if reason is not None:
            raise RuntimeUnavailableError(reason)
        return session

    def assignment(self, artifact: Artifact, threads: int) -> dict[str, list[str]]:
        """Return provider -> its operators if fallback to the CPU is allowed. Nothing is run.

        The refusal of a model names only the first node; this lists all.

        Raises:
            RuntimeUnavailableError: If the provider does not start, or no provider has a kernel for a node.
            UsageError: If onnxruntime refuses the model.
        """
        path, provider = self.model_of(artifact), self.accelerator.lenient
        return operators_by_provider(make_session(path, artifact.settings, threads, provider=provider))


def _session(
    accelerator: Accelerator, model: Path, settings: SessionSettings, threads: int
) -> tuple[onnxruntime.InferenceSession, Collection[tuple[str, str]]]:
    """Return a session and its nodes that may be on the CPU.

    A session without fallback has none. If onnxruntime refuses it, return a session with fallback, and the nodes that
    compute with sizes alone.
    """
    try:
        with captured_stderr():  # onnxruntime writes the refusal there too
            return make_session(model, settings, threads, provider=accelerator.strict), ()
    except UsageError as error:
        if _FALLBACK_REFUSED not in str(error):
            raise
        session = make_session(model, settings, threads, provider=accelerator.lenient)
        if not operators_by_provider(session).keys() - {accelerator.name}:  # no record of the node that was refused
            raise RuntimeUnavailableError(str(error)) from error
        from ffn_export.core import onnx_file
        from ffn_export.runtimes.size_arithmetic import nodes_on_sizes

        return session, nodes_on_sizes(onnx_file.load(model))


class OrtGpuRunner(OrtRunner):
    """A session on a GPU: ``run`` returns arrays on the host, ``prepare`` keeps inputs and outputs on the GPU."""

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Bind the inputs, which copies them to the GPU, and leave the outputs on it, so that no copy is timed.

        onnxruntime waits for the GPU at the end of a run, unless ``disable_synchronize_execution_providers`` is set.
        The call does not rely on it and waits for the outputs.
        """
        binding = self.bind(feeds, "cuda")

        def call() -> None:
            self.session.run_with_iobinding(binding)
            binding.synchronize_outputs()

        return call

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of ``session.run`` with arrays in host memory, as in a program without IO binding.

        When the call returns, the outputs are in host memory, so it has waited for the GPU and the copies. The memory
        is pageable, as that of every NumPy array. bfloat16 outputs stay OrtValues in host memory, not arrays.
        """
        return self._prepare_on_host(feeds)


def node_elsewhere(
    accelerator: Accelerator, session: onnxruntime.InferenceSession, allowed: Collection[tuple[str, str]] = ()
) -> str | None:
    """Return a reason that names the first node that is not on the accelerator, or None if all are on it.

    A session that recorded no assignment proves nothing, and that is a reason too.

    Args:
        accelerator: The required accelerator.
        session: The session.
        allowed: ``(operator, name)`` of nodes that may be on the CPU.
    """
    label = accelerator.label
    assigned = session.get_provider_graph_assignment_info()
    if accelerator.name not in session.get_providers():
        return f"the session fell back to {', '.join(session.get_providers())}"
    for part in assigned:
        for node in part.get_nodes():
            if part.ep_name != accelerator.name and (node.domain or (node.op_type, node.name) not in allowed):
                return f"{node.op_type} ({node.name or 'without a name'}) is placed on {part.ep_name}, not on {label}"
    return None if assigned else f"onnxruntime recorded no placement, so nothing shows that nodes are on {label}"


@cache
def provider_problem(accelerator: Accelerator) -> str | None:
    """Return why the provider does not start here, in one line, or None if it does. Tried once per process."""
    import onnxruntime

    if accelerator.name not in onnxruntime.get_available_providers():
        return f"this onnxruntime has no {accelerator.label} provider: install onnxruntime-gpu in its place"
    try:
        # Only the log has the reason; the error after it is about the fallback.
        with captured_stderr() as log, redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()  # from pip's nvidia packages, which no loader path has; prints what is missing
            session = make_session(_TWICE, NO_OPTIMIZER, 1, provider=accelerator.strict)
    except FfnExportError as error:
        return _reason(accelerator.label, log.text, str(root_cause(error)))
    return node_elsewhere(accelerator, session)


def _reason(label: str, log: str, error: str) -> str:
    """Find the cause in onnxruntime's log, else in its error."""
    needs = re.search(r"Require (cuDNN \S+ and CUDA [\d.*]+?)\.? ", log)
    library = re.search(r"with error: (.+)", log)
    if library is not None:
        reason = f"the {label} provider does not load: {library[1].strip()}"
    elif _FALLBACK_REFUSED in error:
        reason = f"the {label} provider does not start: there is no NVIDIA driver, or it is too old"
    else:
        reason = f"the {label} provider does not start: {error.strip().splitlines()[0].rpartition(' : ')[2]}"
    if len(reason) > _LONGEST:
        reason = f"{reason[:_LONGEST]}…"
    return reason + (f" (it needs {needs[1]})" if needs else "")
