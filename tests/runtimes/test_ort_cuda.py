"""The runtime ``ort-cuda``: the proof of placement on fakes, and the real wheel without a GPU and with one.

The tests that need a GPU are skipped where there is none, which is where CI runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ffn_export as fx
from ffn_export.core.drawing import numpy_dtype
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.source import Source
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes import ort_accelerator
from ffn_export.runtimes.base import Artifact, CopyingRunner
from ffn_export.runtimes.ort_accelerator import OrtGpuRunner, node_elsewhere, provider_problem
from ffn_export.runtimes.ort_cuda import CUDA, OrtCuda
from ffn_export.runtimes.ort_session import CPU, Provider, make_session
from ffn_export.runtimes.ort_values import to_array
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
def no_gpu() -> None:
    if provider_problem(CUDA) is None:
        pytest.skip("there is a GPU here")


@pytest.fixture
def gpu() -> None:
    reason = provider_problem(CUDA)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_accelerator, "provider_problem", lambda _: None)


@in_wheel
@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_reason_is_one_line_and_nothing_else_is_written(
    model: Artifact, capfd: pytest.CaptureFixture[str]
) -> None:
    provider_problem.cache_clear()
    reason = OrtCuda().unavailable(model)
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")
    assert reason is not None
    assert reason.startswith("the CUDA provider does not ")
    assert "\n" not in reason
    assert "\x1b" not in reason
    with pytest.raises(RuntimeUnavailableError, match="the CUDA provider does not"):
        OrtCuda().load(model, 1)


@pytest.mark.slow
@in_wheel
@pytest.mark.usefixtures("no_gpu")
def test_asked_for_by_name_it_is_an_error_and_else_a_note(
    source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    path, reference = fused_file("d2l-ffn"), TorchReference(source("d2l-ffn"), 1)
    with pytest.raises(RuntimeUnavailableError, match="runtime 'ort-cuda' is not available here: the CUDA") as caught:
        run_cases(path, reference, runtimes=["ort-cuda"], cases=[])
    assert caught.value.exit_status == 3
    result = run_cases(path, reference)
    assert result.passed
    assert result.judged == ("ort-cpu",)
    assert result.unavailable == {"ort-cuda": provider_problem(CUDA)}
    assert list(result.placement) == ["ort-cpu"]


def test_a_wheel_without_cuda_says_what_to_install(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU.name])
    assert "install onnxruntime-gpu" in str(OrtCuda().unavailable(model))


@pytest.mark.parametrize(
    ("log", "error", "reason"),
    [
        (
            "[E:…] with error: libcudnn.so.9: cannot open\n[W:…] Require cuDNN 9.* and CUDA 12.*. Please install",
            ort_accelerator._FALLBACK_REFUSED,
            "libcudnn.so.9: cannot open (it needs cuDNN 9.* and CUDA 12.*)",
        ),
        ("", f"FAIL : {ort_accelerator._FALLBACK_REFUSED} by the user.", "there is no NVIDIA driver"),
        ("", "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 100: no GPU\nmore", "start: CUDA failure 100: no GPU"),
        ("", "x" * 1000, "x…"),
    ],
)
def test_the_reason_is_found_in_the_log_or_the_error(log: str, error: str, reason: str) -> None:
    found = ort_accelerator._reason("CUDA", log, error)
    assert reason in found
    assert len(found) < 300


@pytest.mark.usefixtures("with_gpu")
def test_a_node_on_the_cpu_makes_the_model_unavailable(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([Part(CUDA.name, [Node("MatMul")]), Part(CPU.name, [Node("Shape", "n7"), Node("Concat")])])
    monkeypatch.setattr(ort_accelerator, "make_session", lambda *_, **__: session)
    with pytest.raises(RuntimeUnavailableError, match=r"Shape \(n7\) is placed on CPUExecutionProvider"):
        OrtCuda().load(model, 1)


@pytest.mark.usefixtures("with_gpu")
def test_a_session_that_may_not_fall_back_is_made_again_to_name_the_node(
    model: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, provider: Provider, **__: Any) -> FakeSession:
        if provider == CUDA.strict:
            raise UsageError(ort_accelerator._FALLBACK_REFUSED)
        return FakeSession([Part(CPU.name, [Node("BiasGelu")])])

    monkeypatch.setattr(ort_accelerator, "make_session", refuse)
    with pytest.raises(RuntimeUnavailableError, match="BiasGelu"):
        OrtCuda().load(model, 1)


def flattened(tmp_path: Path) -> Artifact:
    """A model that works out the shape to go back to, as a Gemm on more than two axes needs it."""
    body = (
        """r = Relu(x) s = Shape <end = -1> (x) c = Concat <axis = 0> (s, w) f = Reshape(r, rows) y = Reshape(f, c)"""
    )
    constants = "<int64[1] w = {4}, int64[2] rows = {-1, 4}>"
    return write(tmp_path, f"(float[N,M,4] x) => (float[N,M,4] y) {constants}", body, names="n")


def refusing_to_fall_back(session: FakeSession) -> Callable[..., FakeSession]:
    def make(*_: Any, provider: Provider, **__: Any) -> FakeSession:
        if provider == CUDA.strict:
            raise UsageError(ort_accelerator._FALLBACK_REFUSED)
        return session

    return make


@pytest.mark.usefixtures("with_gpu")
def test_arithmetic_on_sizes_may_be_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = Part(CUDA.name, [Node("Relu", "n0"), Node("Shape", "n1"), Node("Reshape", "n3"), Node("Reshape", "n4")])
    session = FakeSession([on_gpu, Part(CPU.name, [Node("Concat", "n2")])])
    monkeypatch.setattr(ort_accelerator, "make_session", refusing_to_fall_back(session))
    assert OrtCuda().load(flattened(tmp_path), 1).placement() == {CUDA.name: 4, CPU.name: 1}


@pytest.mark.usefixtures("with_gpu")
@pytest.mark.parametrize(
    "node",
    [
        Node("Relu", "n0"),  # reads the data
        Node("Reshape", "n3"),  # moves the data
        Node("Concat", ""),  # which one?
        Node("Concat", "n3"),  # another operator than the model has under this name
        Node("Concat", "n2", "com.microsoft"),
    ],
    ids=str,
)
def test_no_other_node_may(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([Part(CUDA.name, [Node("MatMul")]), Part(CPU.name, [Node("Concat", "n2"), node])])
    monkeypatch.setattr(ort_accelerator, "make_session", refusing_to_fall_back(session))
    with pytest.raises(RuntimeUnavailableError, match=f"^{node.op_type} .* is placed on CPUExecutionProvider"):
        OrtCuda().load(flattened(tmp_path), 1)


@pytest.mark.usefixtures("with_gpu")
def test_a_refusal_that_no_record_explains_stands(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([Part(CUDA.name, [Node("Relu")])])
    monkeypatch.setattr(ort_accelerator, "make_session", refusing_to_fall_back(session))
    with pytest.raises(RuntimeUnavailableError, match="fallback to CPU EP has been explicitly disabled"):
        OrtCuda().load(model, 1)


@pytest.mark.usefixtures("with_gpu")
def test_every_node_on_cuda_is_what_loads(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([Part(CUDA.name, [Node("MatMul"), Node("Add")])])
    monkeypatch.setattr(ort_accelerator, "make_session", lambda *_, **__: session)
    runner = OrtCuda().load(model, 1)
    assert isinstance(runner, OrtGpuRunner)
    assert runner.placement() == {CUDA.name: 2}


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (FakeSession([]), "recorded no placement"),
        (FakeSession([Part(CUDA.name, [Node("Add")])], (CPU.name,)), "fell back to CPUExecutionProvider"),
    ],
)
def test_no_proof_is_no_pass(session: Any, reason: str) -> None:
    assert reason in str(node_elsewhere(CUDA, session))


def test_cuda_sessions_may_neither_fall_back_nor_compute_in_less_than_they_are_given() -> None:
    assert CUDA.strict.config_entries["session.disable_cpu_ep_fallback"] == "1"
    assert CUDA.strict.options["use_tf32"] == "0"
    assert CUDA.strict.options["enable_skip_layer_norm_strict_mode"] == "1"


@pytest.mark.slow
@in_wheel
def test_the_provider_knows_every_option_that_it_is_given() -> None:
    library = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    if not library.is_file():
        pytest.skip("the provider is no shared library of this name here")
    code = library.read_bytes()
    assert [option for option, _ in CUDA.options if option.encode() + b"\0" not in code] == []


@pytest.mark.usefixtures("with_gpu")
def test_the_assignment_names_the_operators_of_every_provider(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Part(CUDA.name, [Node("MatMul")]), Part(CPU.name, [Node("Shape")]), Part(CUDA.name, [Node("Add")])]

    def fall_back(*_: Any, provider: Provider, **__: Any) -> FakeSession:
        assert provider == CUDA.lenient
        assert provider.options == CUDA.strict.options
        assert "session.disable_cpu_ep_fallback" not in provider.config_entries
        return FakeSession(parts)

    monkeypatch.setattr(ort_accelerator, "make_session", fall_back)
    assert OrtCuda().assignment(model, 1) == {CUDA.name: ["MatMul", "Add"], CPU.name: ["Shape"]}


def test_no_assignment_without_cuda(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_accelerator, "provider_problem", lambda _: "there is no GPU")
    with pytest.raises(RuntimeUnavailableError, match="there is no GPU"):
        OrtCuda().assignment(model, 1)


def test_bfloat16_that_is_not_in_host_memory_is_not_read() -> None:
    class OnDevice:
        def element_type(self) -> int:
            return 16

        def device_name(self) -> str:
            return "cuda"

    value: Any = OnDevice()
    with pytest.raises(RuntimeError, match="on cuda, not in host memory"):
        to_array(value)


@in_wheel
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_on_a_gpu_every_node_runs_there_and_computes_what_torch_does(dtype: str) -> None:
    fused, _ = fx.fuse(fx.export("d2l-ffn", dtype=dtype), target="ort-cuda")
    result = fx.verify(fused, against="d2l-ffn", dtype=dtype, runtimes=["ort-cuda"], threads=1)
    assert result.failures == ()
    assert result.placement == {"ort-cuda": {CUDA.name: 5}}


@in_wheel
@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_a_prepared_call_leaves_its_output_there(model: Artifact) -> None:
    runner = OrtCuda().load(model, 1)
    assert isinstance(runner, OrtGpuRunner)
    feeds = {"x": np.array([[-1, 0, 1, 2]], np.float32)}
    assert runner.run(feeds)["y"].tolist() == [[0, 0, 1, 2]]
    runner.prepare(feeds)()
    binding = runner.bind(feeds, "cuda")
    runner.session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    (y,) = binding.get_outputs()
    assert y.device_name().lower() == "cuda"
    assert y.numpy().tolist() == [[0, 0, 1, 2]]


@in_wheel
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
def test_on_a_gpu_a_call_with_copies_ends_in_host_memory(dtype: str, tmp_path: Path) -> None:
    runner = OrtCuda().load(write(tmp_path, f"({dtype}[N,4] x) => ({dtype}[N,4] y)", "y = Relu(x)"), 1)
    assert isinstance(runner, CopyingRunner)
    x = np.array([[-1, 0, 1, 2]], numpy_dtype("float32" if dtype == "float" else dtype))
    (y,) = runner.prepare_with_copies({"x": x})()
    array = y if isinstance(y, np.ndarray) else to_array(y)  # which refuses what is not in host memory
    assert array.astype(np.float32).tolist() == [[0, 0, 1, 2]]


def test_a_prepared_call_waits_for_the_gpu_after_every_run() -> None:
    """No GPU is here: the session and its binding are fakes that write down what is asked of them."""
    asked: list[str] = []

    class Binding:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: asked.append(" ".join([name, *(a for a in arguments if isinstance(a, str))]))

    class Session(FakeSession):
        def get_inputs(self) -> list[Any]:
            return []

        def get_outputs(self) -> list[Any]:
            return [SimpleNamespace(name="y", type="tensor(float)")]

        def io_binding(self) -> Binding:
            return Binding()

        def run_with_iobinding(self, binding: Binding) -> None:
            asked.append("run")

    session: Any = Session([])
    call = OrtGpuRunner(session).prepare({"x": np.ones(2, np.float32)})
    assert asked == ["bind_ortvalue_input x", "bind_output y cuda", "synchronize_inputs"]
    asked.clear()
    call()
    call()
    assert asked == ["run", "synchronize_outputs"] * 2


def test_with_copies_host_arrays_go_in_and_come_out(model: Artifact) -> None:
    """No GPU is here: a session on the CPU stands for one there, which takes and gives the same arrays."""
    runner = OrtGpuRunner(make_session(Path(str(model.model_path)), model.settings, 1))
    assert isinstance(runner, CopyingRunner)
    (y,) = runner.prepare_with_copies({"x": np.array([[-1, 0, 1, 2]], np.float32)})()
    assert isinstance(y, np.ndarray)
    assert y.tolist() == [[0, 0, 1, 2]]


@in_wheel
@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_arithmetic_on_sizes_is_all_that_may_be_elsewhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = OrtCuda().load(flattened(tmp_path), 1)
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(runner.run({"x": x})["y"], np.maximum(x, 0))
    assert runner.placement() == {CUDA.name: 4, CPU.name: 1}
    assert capfd.readouterr().err == ""


@in_wheel
@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_a_node_without_a_kernel_there_is_named(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[4,4] x) => (float y)", "r = Relu(x)\n y = Det(r)")
    with pytest.raises(RuntimeUnavailableError, match=r"^Det .* is placed on CPUExecutionProvider"):
        OrtCuda().load(artifact, 1)
