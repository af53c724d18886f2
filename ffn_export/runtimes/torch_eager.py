"""PyTorch, eager, in the working dtype: the baseline of a runtime's error and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError, to_caller
from ffn_export.exporter.outputs import output_names, tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.precision import described


class ModuleRuntime(Runtime):
    """A runtime of the PyTorch module."""

    runs_module = True

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the module is missing, or None: a model alone has none."""
        missing = "there is no PyTorch module to run: name one with --against"
        return to_caller(missing) if artifact.source is None else None

    def source_of(self, artifact: Artifact) -> Source:
        """Return the source of an artifact that the runtime can run here.

        Raises:
            RuntimeUnavailableError: If it cannot, as far as is known before loading.
        """
        reason = self.unavailable(artifact)
        if reason is not None or artifact.source is None:
            raise RuntimeUnavailableError(reason)
        return artifact.source


class TorchEager(ModuleRuntime):
    """The runtime ``torch``."""

    name = "torch"
    by_default = False  # it is the baseline that the others are judged by

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Return a runner of the module with this number of intra-op threads."""
        return TorchRunner(self.source_of(artifact), threads)


class TorchRunner:
    """A module that takes and gives arrays by name, under ``inference_mode``.

    The caller puts the module into evaluation mode.

    Args:
        source: The module, and how it is called.
        threads: Intra-op threads.
        module: Callable to run instead of the source's module: a copy on a device, or a compiled module.
        device: Device of its inputs.
    """

    def __init__(
        self, source: Source, threads: int, module: Callable[..., Any] | None = None, device: str = "cpu"
    ) -> None:
        self.source = source
        self.threads = threads
        self.device = device
        self._module = source.module if module is None else module
        self._names = source.outputs
        # A module may move its inputs itself, so its parameters count too.
        devices = {torch.device(device).type, *(p.device.type for p in source.module.parameters())}
        self._on_cuda = "cuda" in devices

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once."""
        result = self._on_device(feeds)()
        if self._names is None:
            self._names = output_names(result, [spec.name for spec in self.source.inputs])
        return dict(zip(self._names, map(to_numpy, tensors_of(result)), strict=True))

    def output_names(self, feeds: Mapping[str, Array]) -> Sequence[str]:
        """Return the names of the outputs; if the source does not fix them, run once to find them."""
        if self._names is None:
            self.run(feeds)
        assert self._names is not None
        return self._names

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of the module on tensors that are already on the device."""
        return self._on_device(feeds)

    def _on_device(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        tensors = {name: tensor.to(self.device) for name, tensor in to_torch(feeds).items()}
        return self.caller(*self.source.call.arguments(tensors))

    def caller(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """Return a call of the module with these arguments, which returns when its results are computed.

        CUDA computes asynchronously. The call ends with ``torch.cuda.synchronize``, so that a timing measures the work
        and not its launch, by the same clock as for runtimes without CUDA events.
        """
        compute, on_cuda = self._compute, self._on_cuda

        def call() -> Any:
            result = compute(args, kwargs)
            if on_cuda:
                torch.cuda.synchronize()
            return result

        return call

    def _compute(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if torch.get_num_threads() != self.threads:  # global in torch, so set again before each run
            torch.set_num_threads(self.threads)
        with torch.inference_mode():
            return self._module(*args, **kwargs)

    def placement(self) -> dict[str, int]:
        """Return an entry for each device that holds a parameter, with -1 for the number of nodes."""
        devices = {str(p.device) for p in self.source.module.parameters()} or {self.device}
        return dict.fromkeys(sorted(devices), -1)

    def precision(self) -> str:
        """Return the dtypes of the parameters, else of the inputs: eager PyTorch computes in these."""
        dtypes = {str(p.dtype).removeprefix("torch.") for p in self.source.module.parameters() if p.is_floating_point()}
        return described(dtypes or {spec.dtype for spec in self.source.inputs if "float" in spec.dtype})


@contextmanager
def torch_threads_kept() -> Iterator[None]:
    """Restore torch's number of threads afterwards; it is global, and the caller's."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Convert a tensor to an array of the same dtype; bfloat16 becomes ml_dtypes' bfloat16."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(numpy_dtype("bfloat16"))
    return tensor.numpy()
