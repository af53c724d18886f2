"""PyTorch itself, eager, in the working dtype: what a runtime's error and time are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.drawing import numpy_dtype
from ffn_export.exporter.outputs import output_names, tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.runtimes.base import Array, Artifact, Runner


class TorchEager:
    """The runtime ``torch``."""

    name = "torch"
    by_default = False  # it is what the others are judged by

    def unavailable(self, artifact: Artifact) -> str | None:
        """It needs the module: a model alone does not hold it."""
        return "there is no PyTorch module to run: name one with --against" if artifact.source is None else None

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Take the module and set torch's intra-op threads."""
        reason = self.unavailable(artifact)
        if reason is not None or artifact.source is None:
            raise RuntimeUnavailableError(reason)
        return TorchRunner(artifact.source, threads)


class TorchRunner:
    """A module that takes and gives arrays by name, under ``inference_mode``.

    The module is expected in evaluation mode; whoever asks for a run sees to that.
    """

    def __init__(self, source: Source, threads: int) -> None:
        self.source = source
        self.threads = threads
        self._names = source.outputs

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once."""
        result = self.prepare(feeds)()
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
        args, kwargs = self.source.call.arguments(to_torch(feeds))
        module, threads = self.source.module, self.threads

        def call() -> Any:
            if torch.get_num_threads() != threads:  # global in torch, so asserted where it counts
                torch.set_num_threads(threads)
            with torch.inference_mode():
                return module(*args, **kwargs)

        return call

    def placement(self) -> dict[str, int]:
        """One entry for each device that holds a parameter."""
        devices = {str(p.device) for p in self.source.module.parameters()} or {"cpu"}
        return dict.fromkeys(sorted(devices), -1)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Convert a tensor to an array of the same dtype; bfloat16 becomes ml_dtypes' one."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(numpy_dtype("bfloat16"))
    return tensor.numpy()
