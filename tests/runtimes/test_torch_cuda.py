"""torch on CUDA. Here is no GPU: the proof of placement is tested on the CPU and on torch's ``meta`` device.

The tests that need a GPU are skipped where there is none, which is where CI runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ffn_export.core.drawing import draw_all
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.source import Source, from_module
from ffn_export.runtimes import torch_cuda
from ffn_export.runtimes.base import Artifact, CopyingRunner
from ffn_export.runtimes.torch_cuda import DeviceRunner, Devices, FullFloat32, TorchCuda, gpu_problem
from ffn_export.runtimes.torch_eager import TorchEager, TorchRunner


class Stays(torch.nn.Module):
    """Part of it computes on the CPU, wherever it is moved to."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(2).exp().to(x.device)


def test_without_a_gpu_the_reason_is_one_line(source: Callable[[str], Source]) -> None:
    if gpu_problem() is None:
        pytest.skip("there is a GPU here")
    with pytest.raises(RuntimeUnavailableError, match=r"CUDA$") as caught:
        TorchCuda().load(Artifact(source=source("d2l-ffn")), 1)
    assert "\n" not in str(caught.value)


def test_without_a_module_it_says_so() -> None:
    assert "no PyTorch module" in str(TorchCuda().unavailable(Artifact()))


def test_operators_are_counted_where_they_compute(source: Callable[[str], Source]) -> None:
    artifact = Artifact(source=source("d2l-ffn"))
    assert artifact.source is not None
    runner = DeviceRunner(artifact.source, 1, "cpu")  # stands for the GPU
    assert runner.placement().keys() == {"cpu"}
    assert runner.placement()["cpu"] >= 3
    assert runner.precision() == "float32, TF32 off"
    feeds = draw_all(artifact.source.inputs, {"batch": 2, "seq": 5}, seed=0)
    assert np.array_equal(runner.run(feeds)["y"], TorchEager().load(artifact, 1).run(feeds)["y"])


def test_the_module_of_the_source_stays_where_it_is(source: Callable[[str], Source]) -> None:
    DeviceRunner(source("d2l-ffn"), 1, "meta")
    assert {str(parameter.device) for parameter in source("d2l-ffn").module.parameters()} == {"cpu"}


def test_an_operator_that_computes_elsewhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_cuda, "gpu_problem", lambda: None)  # `meta` stands for the GPU
    runtime = TorchCuda()
    runtime.device = "meta"
    with pytest.raises(RuntimeUnavailableError, match=r"^aten\.\w+\.\w+ computes on cpu, not on meta$"):
        runtime.load(Artifact(source=from_module(Stays(), {"x": "float32[n,2]"})), 1)


def test_integers_may_be_elsewhere() -> None:
    with Devices("meta") as seen:
        torch.arange(3)
        torch.ones(2, device="meta") * 2
    assert seen.elsewhere is None
    assert set(seen.operators) == {"cpu", "meta"}


def test_what_pytorch_raises_on_the_device_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.sum().item()

    monkeypatch.setattr(torch_cuda, "gpu_problem", lambda: None)  # `meta`, which holds no numbers, stands for the GPU
    runtime = TorchCuda()
    runtime.device = "meta"
    with pytest.raises(RuntimeUnavailableError, match="PyTorch on meta: ") as caught:
        runtime.load(Artifact(source=from_module(Reads(), {"x": "float32[n,2]"})), 1)
    assert "\n" not in str(caught.value)


def test_tf32_is_off_in_a_run_and_as_it_was_after() -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    try:
        matmul.allow_tf32 = cudnn.allow_tf32 = True
        with FullFloat32():
            assert (matmul.allow_tf32, cudnn.allow_tf32) == (False, False)
        assert (matmul.allow_tf32, cudnn.allow_tf32) == (True, True)
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def test_on_a_gpu_it_computes_what_the_cpu_does(source: Callable[[str], Source]) -> None:
    reason = gpu_problem()
    if reason is not None:
        pytest.skip(reason)
    artifact = Artifact(source=source("t5-ffn"))
    assert artifact.source is not None
    runner = TorchCuda().load(artifact, 1)
    assert all(device.startswith("cuda") for device in runner.placement())
    feeds = draw_all(artifact.source.inputs, {"batch": 3, "seq": 5}, seed=0)
    expected = TorchEager().load(artifact, 1).run(feeds)["y"]
    np.testing.assert_allclose(runner.run(feeds)["y"], expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert runner.prepare(feeds)().device.type == "cuda"
    assert isinstance(runner, CopyingRunner)
    (copied,) = runner.prepare_with_copies(feeds)()
    assert copied.device.type == "cpu"
    np.testing.assert_allclose(copied.numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


class Writes(torch.nn.Module):
    """Gives two results, and writes to its input."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x += 1
        return {"y": 2 * x, "z": x.sum()}


def test_with_copies_every_call_starts_and_ends_in_host_memory() -> None:
    source = from_module(Writes(), {"x": "float32[n,2]"})
    runner = DeviceRunner(source, 1, "cpu")  # stands for the GPU
    assert isinstance(runner, CopyingRunner)
    call = runner.prepare_with_copies({"x": np.array([[1, 2]], np.float32)})
    for _ in range(2):  # the second one reads what was given, not what the first one wrote
        assert [tensor.tolist() for tensor in call()] == [[[4, 6]], 5]


@pytest.mark.parametrize("prepared", ["prepare", "prepare_with_copies"])
def test_a_call_on_cuda_waits_for_the_device(
    prepared: str, source: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU is here: the CPU stands for it, and a fake for waiting writes down when it is asked to."""
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("waited"))
    runner = DeviceRunner(source("d2l-ffn"), 1, "cpu")
    runner._module.register_forward_hook(lambda *_: order.append("computed"))  # type: ignore[attr-defined]
    feeds = draw_all(source("d2l-ffn").inputs, {"batch": 2, "seq": 5}, seed=0)
    getattr(runner, prepared)(feeds)()
    assert order == ["computed"]
    order.clear()
    runner._on_cuda = True
    call = getattr(runner, prepared)(feeds)
    call()
    call()
    assert order == ["computed", "waited"] * 2


def test_what_is_on_cuda_is_known_by_device_and_parameters(source: Callable[[str], Source]) -> None:
    assert TorchRunner(source("d2l-ffn"), 1, device="cuda")._on_cuda
    assert not TorchRunner(source("d2l-ffn"), 1)._on_cuda
