"""The runtime ``ort-cuda`` with the real wheel on a machine without a GPU, and the proof of placement on fakes.

No test here runs a node on a GPU: there is none where these tests run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.source import Source
from ffn_export.parity.references import TorchReference
from ffn_export.parity.verify import verify
from ffn_export.runtimes import ort_cuda
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cuda import CUDA, OrtCuda, OrtCudaRunner, node_elsewhere, provider_problem
from ffn_export.runtimes.ort_session import CPU, Provider
from tests.runtimes.graphs import write

in_wheel = pytest.mark.skipif(CUDA.name not in onnxruntime.get_available_providers(), reason="needs onnxruntime-gpu")


@dataclass
class Node:
    op_type: str
    name: str = ""
    domain: str = ""


@dataclass
class Part:
    ep_name: str
    nodes: list[Node]

    def get_nodes(self) -> list[Node]:
        return self.nodes


@dataclass
class FakeSession:
    """Stands for a session on a machine that has a GPU."""

    parts: list[Part]
    providers: tuple[str, ...] = (CUDA.name, CPU.name)

    def get_provider_graph_assignment_info(self) -> list[Part]:
        return self.parts

    def get_providers(self) -> list[str]:
        return list(self.providers)

    def get_outputs(self) -> list[Any]:
        return []

    get_inputs = get_outputs


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    provider_problem.cache_clear()
    yield
    provider_problem.cache_clear()


@pytest.fixture
def model(tmp_path: Path) -> Artifact:
    return write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = Relu(x)")


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_cuda, "provider_problem", lambda: None)


@in_wheel
def test_without_a_gpu_the_reason_is_one_line_and_nothing_else_is_written(
    model: Artifact, capfd: pytest.CaptureFixture[str]
) -> None:
    reason = OrtCuda().unavailable(model)
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")
    assert reason is not None
    assert reason.startswith("the CUDA provider does not ")
    assert "\n" not in reason
    assert "\x1b" not in reason
    with pytest.raises(RuntimeUnavailableError, match="the CUDA provider does not"):
        OrtCuda().load(model, 1)


@in_wheel
def test_asked_for_by_name_it_is_an_error_and_else_a_note(
    source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    path, reference = fused_file("d2l-ffn"), TorchReference(source("d2l-ffn"), 1)
    with pytest.raises(RuntimeUnavailableError, match="runtime 'ort-cuda' is not available here: the CUDA") as caught:
        verify(path, reference, runtimes=["ort-cuda"], cases=[])
    assert caught.value.exit_status == 3
    result = verify(path, reference)
    assert result.passed
    assert result.judged == ("ort-cpu",)
    assert result.unavailable == {"ort-cuda": provider_problem()}
    assert list(result.placement) == ["ort-cpu"]


def test_a_wheel_without_cuda_says_what_to_install(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU.name])
    assert "install onnxruntime-gpu" in str(OrtCuda().unavailable(model))


@pytest.mark.parametrize(
    ("log", "error", "reason"),
    [
        ("[E:…] with error: libcudnn.so.9: cannot open\n[W:…] Require cuDNN 9.* and CUDA 12.*. Please install",
         ort_cuda._FALLBACK_REFUSED, "libcudnn.so.9: cannot open (it needs cuDNN 9.* and CUDA 12.*)"),
        ("", f"FAIL : {ort_cuda._FALLBACK_REFUSED} by the user.", "there is no NVIDIA driver"),
        ("", "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 100: no GPU\nmore", "start: CUDA failure 100: no GPU"),
        ("", "x" * 1000, "x…"),
    ],
)  # fmt: skip
def test_the_reason_is_found_in_the_log_or_the_error(log: str, error: str, reason: str) -> None:
    found = ort_cuda._reason(log, error)
    assert reason in found
    assert len(found) < 300


@pytest.mark.usefixtures("with_gpu")
def test_a_node_on_the_cpu_makes_the_model_unavailable(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([Part(CUDA.name, [Node("MatMul")]), Part(CPU.name, [Node("Shape", "n7"), Node("Concat")])])
    monkeypatch.setattr(ort_cuda, "make_session", lambda *_, **__: session)
    with pytest.raises(RuntimeUnavailableError, match=r"Shape \(n7\) is placed on CPUExecutionProvider"):
        OrtCuda().load(model, 1)


@pytest.mark.usefixtures("with_gpu")
def test_a_session_that_may_not_fall_back_is_made_again_to_name_the_node(
    model: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, provider: Provider, **__: Any) -> FakeSession:
        if provider == CUDA:
            raise UsageError(ort_cuda._FALLBACK_REFUSED)
        return FakeSession([Part(CPU.name, [Node("BiasGelu")])])

    monkeypatch.setattr(ort_cuda, "make_session", refuse)
    with pytest.raises(RuntimeUnavailableError, match="BiasGelu"):
        OrtCuda().load(model, 1)


@pytest.mark.usefixtures("with_gpu")
def test_every_node_on_cuda_is_what_loads(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([Part(CUDA.name, [Node("MatMul"), Node("Add")])])
    monkeypatch.setattr(ort_cuda, "make_session", lambda *_, **__: session)
    runner = OrtCuda().load(model, 1)
    assert isinstance(runner, OrtCudaRunner)
    assert runner.placement() == {CUDA.name: 2}


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (FakeSession([]), "recorded no placement"),
        (FakeSession([Part(CUDA.name, [Node("Add")])], (CPU.name,)), "fell back to CPUExecutionProvider"),
    ],
)
def test_no_proof_is_no_pass(session: Any, reason: str) -> None:
    assert reason in str(node_elsewhere(session))


def test_cuda_sessions_may_neither_fall_back_nor_round_to_tf32() -> None:
    assert CUDA.config_entries["session.disable_cpu_ep_fallback"] == "1"
    assert CUDA.options["use_tf32"] == "0"
