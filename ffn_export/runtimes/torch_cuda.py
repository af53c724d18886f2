"""The PyTorch module, eager, on a GPU with CUDA; each operator is proven to compute there, and TF32 is off."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ffn_export.core.one_line import first_line
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.module_state import copied
from ffn_export.exporter.outputs import tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.torch_eager import ModuleRuntime, TorchRunner

_BACKENDS: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
_ONE_AT_A_TIME = threading.Lock()


class TorchCuda(ModuleRuntime):
    """The runtime ``torch-cuda``."""

    name = "torch-cuda"
    by_default = False  # it runs the module, not the model
    device = "cuda"

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the module or GPU is missing, or None; operators elsewhere show only in loading."""
        return super().unavailable(artifact) or gpu_problem()

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Copy the module to the GPU, and run it once to check the device of each operator."""
        source = self.source_of(artifact)
        try:
            return DeviceRunner(source, threads, self.device)
        except (RuntimeError, NotImplementedError) as error:
            raise RuntimeUnavailableError(f"PyTorch on {self.device}: {first_line(error)}") from error


class DeviceRunner(TorchRunner):
    """A copy of a module on a device.

    Args:
        source: The module, and how it is called.
        threads: Intra-op threads of operators on the CPU.
        device: Device to run on.

    Raises:
        RuntimeUnavailableError: If a parameter or output is on another device, or an operator computes floating-point
            numbers there.
    """

    def __init__(self, source: Source, threads: int, device: str) -> None:
        module = copied(source.module).to(device)
        super().__init__(source, threads, module, device)
        self._placed = self._observed(module)

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call that starts with tensors in host memory and ends with its results in host memory.

        The memory is pageable, as by default in PyTorch. ``Tensor.cpu`` waits for its copy. Then the call waits for the
        whole device, as every call does.
        """
        on_host = to_torch(feeds)
        on_device = {name: torch.empty_like(tensor, device=self.device) for name, tensor in on_host.items()}
        compute, on_cuda = self._compute, self._on_cuda
        args, kwargs = self.source.call.arguments(on_device)

        def call() -> list[torch.Tensor]:
            for name, tensor in on_host.items():
                on_device[name].copy_(tensor)
            result = compute(args, kwargs)
            # Searching a result for tensors takes microseconds, which a single tensor does not need.
            results = [result] if isinstance(result, torch.Tensor) else tensors_of(result)
            copied = [tensor.cpu() for tensor in results]
            if on_cuda:
                torch.cuda.synchronize()
            return copied

        return call

    def _compute(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        with FullFloat32():
            return super()._compute(args, kwargs)

    def placement(self) -> dict[str, int]:
        """Return device -> number of operators that computed there, counted by the dispatcher."""
        return dict(self._placed)

    def precision(self) -> str:
        """Return the module's dtypes, with a note that TF32 is off."""
        return f"{super().precision()}, TF32 off"

    def _observed(self, module: torch.nn.Module) -> Counter[str]:
        """Run once and count operators by device."""
        elsewhere = [n for n, p in module.named_parameters() if not on(self.device, p)]
        if elsewhere:
            raise RuntimeUnavailableError(f"the parameter {elsewhere[0]} did not move to {self.device}")
        sizes = self.source.traced_sizes()
        args, kwargs = self.source.arguments(sizes)
        args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(self.device), (args, kwargs))
        with FullFloat32(), torch.inference_mode(), Devices(self.device) as seen:
            results = module(*args, **kwargs)
        if seen.elsewhere is not None:
            raise RuntimeUnavailableError(f"{seen.elsewhere}, not on {self.device}")
        if any(not on(self.device, tensor) for tensor in tensors_of(results)):
            raise RuntimeUnavailableError(f"an output is not on {self.device}")
        operators: Counter[str] = seen.operators
        return operators


class Devices(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Counts operators by the device of their results, and notes the first that computes elsewhere.

    Args:
        device: Required device of floating-point results.

    Attributes:
        operators: Device -> number of operators.
        elsewhere: The first operator with a floating-point result on another device, or None.
    """

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self.device = device
        self.operators: Counter[str] = Counter()
        self.elsewhere: str | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operator and count its results' devices."""
        result = func(*args, **(kwargs or {}))
        made = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
        self.operators.update({str(tensor.device) for tensor in made})
        for tensor in made:
            if self.elsewhere is None and tensor.is_floating_point() and not on(self.device, tensor):
                self.elsewhere = f"{func} computes on {tensor.device}"
        return result


def on(device: str, tensor: torch.Tensor) -> bool:
    """Whether a tensor is on a device of this type."""
    return tensor.device.type == torch.device(device).type


class FullFloat32:
    """Context in which CUDA computes float32 products in float32, not in TF32 with its 10 bits of mantissa.

    One thread at a time: the settings are global. Timed runs enter this context, so it is a class, which is faster than
    a generator, and sets only the settings that change.
    """

    def __enter__(self) -> None:
        """Turn TF32 off in the backends that have it on."""
        _ONE_AT_A_TIME.acquire()
        try:
            self._changed = [backend for backend in _BACKENDS if backend.allow_tf32]
            for backend in self._changed:
                backend.allow_tf32 = False
        except BaseException:
            _ONE_AT_A_TIME.release()
            raise

    def __exit__(self, *_: object) -> None:
        """Turn TF32 on again in those backends."""
        try:
            for backend in self._changed:
                backend.allow_tf32 = True
        finally:
            _ONE_AT_A_TIME.release()


def gpu_problem() -> str | None:
    """Return why PyTorch has no CUDA here, in one line, or None."""
    if torch.version.cuda is None:
        return f"this PyTorch ({torch.__version__}) is built without CUDA"
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU with CUDA"
    return None
