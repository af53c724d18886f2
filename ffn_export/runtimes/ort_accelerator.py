"""ONNX Runtime on the execution provider of a GPU alone: every node proven to be there, or ``unavailable``.

onnxruntime makes it easy to report a CPU's number as a GPU's: it lists CUDA as available without a
driver, and a session that was asked for CUDA moves to CPU with a line in the log. So the provider is
tried on a model of one node, sessions may not fall back, and the assignment of each node is read.
What computes with sizes alone may be on the CPU, where onnxruntime keeps it on purpose.
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

from ffn_export.core import onnx_file
from ffn_export.core.one_line import root_cause
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError, RuntimeUnavailableError, UsageError
from ffn_export.runtimes import ort_session
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.captured_stderr import captured_stderr
from ffn_export.runtimes.ort_session import OrtRunner, Provider, make_session, operators_by_provider
from ffn_export.runtimes.precision import described, graph_dtypes
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings
from ffn_export.runtimes.size_arithmetic import nodes_on_sizes

if TYPE_CHECKING:
    import onnxruntime

_NO_FALLBACK: Mapping[str, str] = {"session.disable_cpu_ep_fallback": "1"}
_FALLBACK_REFUSED = "fallback to CPU EP has been explicitly disabled"
_LONGEST = 200


@dataclass(frozen=True)
class Accelerator:
    """A provider on a GPU.

    Attributes:
        label: What to call it in a reason.
        name: Its name in ONNX Runtime.
        options: Its own options.
    """

    label: str
    name: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def strict(self) -> Provider:
        """The provider, for sessions that may not fall back."""
        return Provider(self.name, dict(self.options), _NO_FALLBACK)

    @property
    def lenient(self) -> Provider:
        """The provider, for sessions that may: what was assigned to whom is then on record."""
        return Provider(self.name, dict(self.options), {})


class OrtAccelerator:
    """A runtime on one accelerator; its subclasses say which."""

    name: str
    by_default: bool
    last_resort = False
    runs_module = False
    accelerator: Accelerator

    def unavailable(self, artifact: Artifact) -> str | None:
        """Missing package, model, GPU or library; where a model's nodes end up, only loading tells."""
        return ort_session.missing(artifact) or provider_problem(self.accelerator)

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make a session and prove that each of its nodes is there, but for those that compute with sizes alone."""
        reason = self.unavailable(artifact)
        if reason is not None or artifact.model_path is None:
            raise RuntimeUnavailableError(reason)
        session, allowed = _session(self.accelerator, artifact.model_path, artifact.settings, threads)
        reason = node_elsewhere(self.accelerator, session, allowed)
        if reason is not None:
            raise RuntimeUnavailableError(reason)
        dtypes = described(graph_dtypes(onnx_file.load(artifact.model_path)))
        return OrtGpuRunner(session, f"{dtypes}, TF32 off")

    def assignment(self, artifact: Artifact, threads: int) -> dict[str, list[str]]:
        """Return provider -> operators that it would run if the CPU were allowed to help; nothing is run.

        It says more than the refusal of a model, which names the first node alone.

        Raises:
            RuntimeUnavailableError: If the provider does not start, or a node that no provider has a kernel for.
            UsageError: If onnxruntime refuses the model.
        """
        reason = self.unavailable(artifact)
        if reason is not None or artifact.model_path is None:
            raise RuntimeUnavailableError(reason)
        provider = self.accelerator.lenient
        return operators_by_provider(make_session(artifact.model_path, artifact.settings, threads, provider=provider))


def _session(
    accelerator: Accelerator, model: Path, settings: SessionSettings, threads: int
) -> tuple[onnxruntime.InferenceSession, Collection[tuple[str, str]]]:
    """Return a session, and what may be on the CPU in it: nothing, unless one that may not fall back is refused."""
    try:
        with captured_stderr():  # onnxruntime writes the refusal there too
            return make_session(model, settings, threads, provider=accelerator.strict), ()
    except UsageError as error:
        if _FALLBACK_REFUSED not in str(error):
            raise
        session = make_session(model, settings, threads, provider=accelerator.lenient)
        if not operators_by_provider(session).keys() - {accelerator.name}:  # what was refused is in no record
            raise RuntimeUnavailableError(str(error)) from error
    return session, nodes_on_sizes(onnx_file.load(model))


class OrtGpuRunner(OrtRunner):
    """A session on a GPU: ``run`` gives arrays on the host, ``prepare`` keeps inputs and outputs on the GPU."""

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Bind the inputs, which copies them to the GPU, and leave the outputs there: no copy is timed.

        onnxruntime waits for the GPU at the end of a run, unless ``disable_synchronize_execution_providers`` asks it
        not to. The call does not rely on that and waits for the outputs itself.
        """
        binding = self.bind(feeds, "cuda")

        def call() -> None:
            self.session.run_with_iobinding(binding)
            binding.synchronize_outputs()

        return call

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of ``session.run`` with arrays in host memory, as a program has them that binds nothing.

        Its outputs are in host memory when it returns, so it has waited for the GPU and for the copies. That memory
        is pageable, as that of every NumPy array. bfloat16 comes out as bits in host memory and not as an array.
        """
        return self._prepare_on_host(feeds)


def node_elsewhere(
    accelerator: Accelerator, session: onnxruntime.InferenceSession, allowed: Collection[tuple[str, str]] = ()
) -> str | None:
    """Return which node of a session is not on the accelerator, the first one, or None when all are.

    A session that recorded no assignment has proven nothing.

    Args:
        accelerator: Where the nodes should be.
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
    """Return why the provider does not start here, in one line, or None when it does. Tried once a process."""
    import onnxruntime
    from onnx import parser

    if accelerator.name not in onnxruntime.get_available_providers():
        return f"this onnxruntime has no {accelerator.label} provider: install onnxruntime-gpu in its place"
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) {y = Add(x, x)}'
    )
    try:
        # The reason goes to the log alone; the error that follows speaks of the fallback.
        with captured_stderr() as log, redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()  # those of pip's nvidia packages, which no loader path names; prints what lacks
            session = make_session(model.SerializeToString(), NO_OPTIMIZER, 1, provider=accelerator.strict)
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
