"""The runtime ``ort-tensorrt``: what it shares with ``ort-cuda`` is tested there; the real wheel, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest

from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes import ort_accelerator
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_accelerator import node_elsewhere, provider_problem
from ffn_export.runtimes.ort_cuda import CUDA
from ffn_export.runtimes.ort_tensorrt import TENSORRT, OrtTensorrt
from tests.runtimes.graphs import write
from tests.runtimes.test_ort_cuda import FakeSession, Node, Part

LIBRARY = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_tensorrt.so"
in_wheel = pytest.mark.skipif(not LIBRARY.is_file(), reason="this onnxruntime has no TensorRT provider")


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    provider_problem.cache_clear()
    yield
    provider_problem.cache_clear()


@pytest.fixture
def model(tmp_path: Path) -> Artifact:
    return write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = Relu(x)")


@in_wheel
def test_where_it_does_not_start_the_reason_is_one_line(model: Artifact, capfd: pytest.CaptureFixture[str]) -> None:
    if provider_problem(TENSORRT) is None:
        pytest.skip("TensorRT works here")
    provider_problem.cache_clear()
    with pytest.raises(RuntimeUnavailableError, match=r"^the TensorRT provider does not (load|start): ") as caught:
        OrtTensorrt().load(model, 1)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


@in_wheel
def test_the_provider_knows_every_option_that_it_is_given() -> None:
    code = LIBRARY.read_bytes()
    assert [option for option, _ in TENSORRT.options if option.encode() + b"\0" not in code] == []


def test_it_wants_tf32_off_before_anything_is_loaded(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_accelerator, "provider_problem", lambda _: None)  # stands for a machine with a GPU
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    assert "set NVIDIA_TF32_OVERRIDE=0" in str(OrtTensorrt().unavailable(model))
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert OrtTensorrt().unavailable(model) is None


@pytest.mark.parametrize("elsewhere", [CUDA.name, "CPUExecutionProvider"])
def test_a_node_that_tensorrt_leaves_to_another_provider_is_named(
    elsewhere: str, model: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Part(TENSORRT.name, [Node("MatMul")]), Part(elsewhere, [Node("Gelu", "n1")])]
    session = FakeSession(parts, (TENSORRT.name, elsewhere))  # stands for a session on a machine with a GPU
    monkeypatch.setattr(ort_accelerator, "provider_problem", lambda _: None)
    monkeypatch.setattr(ort_accelerator, "make_session", lambda *_, **__: session)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    with pytest.raises(RuntimeUnavailableError, match=rf"^Gelu \(n1\) is placed on {elsewhere}, not on TensorRT"):
        OrtTensorrt().load(model, 1)


def test_all_nodes_on_tensorrt_is_proof() -> None:
    session = FakeSession([Part(TENSORRT.name, [Node("MatMul")])], (TENSORRT.name,))  # as above
    assert node_elsewhere(TENSORRT, session) is None
