"""Sessions of ONNX Runtime on one execution provider, and arrays in and out of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ffn_export.core import freed
from ffn_export.core.size_on_disk import size_on_disk
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ended_run import DidNotEndError, allowed_seconds, ended_after
from ffn_export.runtimes.ort_values import to_array, to_ort_value
from ffn_export.runtimes.session_options import SessionSettings

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class Provider:
    """An execution provider and the options of its sessions.

    Attributes:
        name: Name in ONNX Runtime.
        options: Provider options.
        config_entries: Session configuration entries besides those of the model.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    config_entries: Mapping[str, str] = field(default_factory=dict)


CPU = Provider("CPUExecutionProvider")

OLDEST = "1.29.0"
"""The oldest onnxruntime that runs all that is written here.

Before 1.29 ``MultiHeadAttention`` ends the process on an empty batch, before 1.27 norms are not accurate enough, and
before 1.24 it does not say where a node is placed.
"""

# Operators whose kernels read past the end of an empty input, or divide by its size.
_END_ON_NOTHING = frozenset({"GRU", "Einsum", "InstanceNormalization"})


class OrtRunner:
    """A session that takes and gives arrays by name.

    Args:
        session: The session.
        precision: Floating-point dtypes of the graph, which the session keeps.
        ends: Whether to end a run that exceeds the CPU time for the size of its model.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, precision: str = "as the graph states", *, ends: bool = False
    ) -> None:
        self.session = session
        self._ends = ends
        self._ended: str | None = None
        self._precision = precision
        operators = {name for placed in operators_by_provider(session).values() for name in placed}
        self._ends_on_nothing = sorted(operators & _END_ON_NOTHING)
        self._outputs = [output.name for output in session.get_outputs()]
        self._bfloat16 = any("bfloat16" in value.type for value in (*session.get_inputs(), *session.get_outputs()))

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once.

        Raises:
            RuntimeUnavailableError: If a kernel of the session could crash the process on these inputs.
            DidNotEndError: If this run, or an earlier one, exceeded the CPU time for the size of the model.
        """
        if self._ended is not None:
            raise DidNotEndError(f"it was not run: on other inputs {self._ended}")
        if self._ends_on_nothing and any(array.size == 0 for array in feeds.values()):
            named = " and ".join(self._ends_on_nothing)
            raise RuntimeUnavailableError(f"onnxruntime's {named} may end the whole process on an empty input")
        seconds = allowed_seconds(self.session.bytes_on_disk) if self._ends else None
        try:
            with freed.pages_during(self.session.weights), ended_after(seconds) as options:
                results = self._prepare_on_host(feeds, options)()
        except DidNotEndError as error:
            self._ended = str(error)
            raise
        arrays = map(to_array, results) if self._bfloat16 else map(np.asarray, results)
        return dict(zip(self._outputs, arrays, strict=True))

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of the session with bound inputs, and outputs that are allocated only in the first run.

        In each run, ``session.run`` checks and wraps plain arrays and copies each output to a new array. Timed in turn
        on one thread, the bound call was faster beyond the noise: a little for bert-ffn at 1 and 16 tokens, and much
        for d2l-ffn, whose run is mostly this overhead. PyTorch's inputs are in place too; it allocates its outputs.
        """
        binding = self.bind(feeds, "cpu")
        return lambda: self.session.run_with_iobinding(binding)

    def bind(self, feeds: Mapping[str, Array], device: str) -> onnxruntime.IOBinding:
        """Bind the inputs, and bind the outputs to a device."""
        binding = self.session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, to_ort_value(array))
        for name in self._outputs:
            binding.bind_output(name, device)
        binding.synchronize_inputs()
        return binding

    def _prepare_on_host(
        self, feeds: Mapping[str, Array], options: onnxruntime.RunOptions | None = None
    ) -> Callable[[], Any]:
        """Return a call with plain arrays unless one is bfloat16: it costs a seventh of a call with OrtValues."""
        names = self._outputs
        if self._bfloat16:
            run_values, values = self.session.run_with_ort_values, {n: to_ort_value(a) for n, a in feeds.items()}
            return lambda: run_values(names, values, options)
        run, inputs = self.session.run, dict(feeds)
        return lambda: run(names, inputs, options)

    def placement(self) -> dict[str, int]:
        """Return provider -> number of nodes, from the assignment that the session recorded."""
        return {provider: len(operators) for provider, operators in operators_by_provider(self.session).items()}

    def precision(self) -> str:
        """Return the dtypes that the graph states: a kernel computes in the dtype of its inputs."""
        return self._precision


def operators_by_provider(session: onnxruntime.InferenceSession) -> dict[str, list[str]]:
    """Return provider -> operator of each node that the session recorded as assigned to it."""
    placed: defaultdict[str, list[str]] = defaultdict(list)
    for assigned in session.get_provider_graph_assignment_info():
        placed[assigned.ep_name] += [node.op_type for node in assigned.get_nodes()]
    return dict(placed)


def missing(artifact: Artifact) -> str | None:
    """Return why the package is missing or too old, or why there is no model, or None."""
    try:
        import onnxruntime
    except ImportError as error:
        return f"onnxruntime is not installed ({error})"
    if not hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        return f"onnxruntime {onnxruntime.__version__} is too old: install {OLDEST} or newer"
    return "there is no ONNX model to run" if artifact.model_path is None else None


def make_session(
    model: Path | bytes,
    settings: SessionSettings,
    threads: int | None = None,
    *,
    provider: Provider = CPU,
    profile_prefix: str | None = None,
    weights: Mapping[str, Array] | None = None,
) -> onnxruntime.InferenceSession:
    """Load a model, from a file or from memory, on one provider.

    Args:
        model: Path of an ONNX file, or its bytes.
        settings: The session options.
        threads: Intra-op threads; by default all processors that this process may use.
        provider: The execution provider.
        profile_prefix: Path prefix of the session's profile; None for no profile.
        weights: Initializers of the main graph in memory: name -> array. The session reads them in place as long as it
            lives. The model names them as external data in a file, which may be empty: only an optimiser would read
            the file.

    Raises:
        RuntimeUnavailableError: If the provider lacks a kernel for an operator of the model in its dtype.
        UsageError: If onnxruntime refuses the model; the message has the first line of its error.
    """
    import onnxruntime

    options = settings.session_options(threads)
    for key, value in {"session.record_ep_graph_assignment_info": "1", **provider.config_entries}.items():
        options.add_session_config_entry(key, value)
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    shared = {name: to_ort_value(array) for name, array in (weights or {}).items()}
    for name, value in shared.items():
        options.add_initializer(name, value)  # the options hold only the address
    source = model if isinstance(model, bytes) else str(model)
    providers = [(provider.name, dict(provider.options))]
    try:
        # Without enable_fallback=0, onnxruntime prints the error and makes a session on another provider.
        session = onnxruntime.InferenceSession(source, options, providers=providers, enable_fallback=0)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        _, lacks_kernel, what = reason.partition("NOT_IMPLEMENTED : ")
        if lacks_kernel:
            raise RuntimeUnavailableError(f"onnxruntime's {provider.name} lacks a kernel: {what}") from error
        name = "the model" if isinstance(model, bytes) else model.name
        raise UsageError(f"onnxruntime does not load {name}: {reason}") from error
    shared_bytes = sum(array.nbytes for array in (weights or {}).values())
    session.bytes_on_disk = shared_bytes + (len(model) if isinstance(model, bytes) else size_on_disk(model))
    session.shared_initializers = shared  # keeps the arrays alive as long as the session
    session.weights = tuple((weights or {}).values())
    return session
