"""PyTorch itself, eager, in the working dtype: what a runtime's error and time are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.outputs import output_names, tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.precision import described


def no_source(artifact: Artifact) -> str | None:
    """Return why there is no module to run: a model alone does not hold it."""
    return "there is no PyTorch module to run: name one with --against" if artifact.source is None else None


class TorchEager:
    """The runtime ``torch``."""

    name = "torch"
    by_default = False  # it is what the others are judged by
    last_resort = False
    runs_module = True

    def unavailable(self, artifact: Artifact) -> str | None:
        """It needs the module."""
        return no_source(artifact)

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Take the module and set torch's intra-op threads."""
        reason = self.unavailable(artifact)
        if reason is not None or artifact.source is None:
            raise RuntimeUnavailableError(reason)
        return TorchRunner(artifact.source, threads)


class TorchRunner:
    """A module that takes and gives arrays by name, under ``inference_mode``.

    The module is expected in evaluation mode; whoever asks for a run sees to that.

    Args:
        source: What to run, and how it is called.
        threads: Intra-op threads.
        module: What to call in the place of the source's own module: a copy on a device, a compiled one.
        device: Where that takes its inputs.
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
        """Return the names of the outputs; a module that does not fix them is run for them once."""
        if self._names is None:
            self.run(feeds)
        assert self._names is not None
        return self._names

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of the module on tensors that are already there."""
        return self._on_device(feeds)

    def _on_device(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        tensors = {name: tensor.to(self.device) for name, tensor in to_torch(feeds).items()}
        return self.caller(*self.source.call.arguments(tensors))

    def caller(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """Return a call of the module with these arguments, which returns when its results are computed.

        CUDA computes while Python goes on. The call ends with ``torch.cuda.synchronize``, so that whoever times it
        times the work and not its launch; that is the same clock as for runtimes without CUDA events.
        """
        compute, on_cuda = self._compute, self._on_cuda

        def call() -> Any:
            result = compute(args, kwargs)
            if on_cuda:
                torch.cuda.synchronize()
            return result

        return call

    def _compute(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if torch.get_num_threads() != self.threads:  # global in torch, so asserted where it counts
            torch.set_num_threads(self.threads)
        with torch.inference_mode():
            return self._module(*args, **kwargs)

    def placement(self) -> dict[str, int]:
        """One entry for each device that holds a parameter."""
        devices = {str(p.device) for p in self.source.module.parameters()} or {self.device}
        return dict.fromkeys(sorted(devices), -1)

    def precision(self) -> str:
        """Return the dtypes of the parameters, else of the inputs: eager PyTorch computes in what it is given."""
        dtypes = {str(p.dtype).removeprefix("torch.") for p in self.source.module.parameters() if p.is_floating_point()}
        return described(dtypes or {spec.dtype for spec in self.source.inputs if "float" in spec.dtype})


@contextmanager
def torch_threads_kept() -> Iterator[None]:
    """Give PyTorch its number of threads back, which is one for the whole process: its user's."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Convert a tensor to an array of the same dtype; bfloat16 becomes ml_dtypes' one."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(numpy_dtype("bfloat16"))
    return tensor.numpy()
