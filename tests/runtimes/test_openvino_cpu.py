"""OpenVINO: which precision it computed in, on the real thing.

bfloat16 by default needs a processor that has it. The proof is tested where a hint makes OpenVINO compute in
bfloat16 on one that has not, which AVX-512 is enough for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.source import Source
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes import registry
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.openvino_cpu import BFLOAT16, FLOAT32, OpenVino, OpenVinoRunner, computed_in
from tests.runtimes.graphs import write

HAS_BFLOAT16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


@pytest.fixture
def ffn(source: Callable[[str], Source], fused_file: Callable[..., Path]) -> Artifact:
    return Artifact(fused_file("t5-ffn", "portable"), source("t5-ffn"))


def compiled(artifact: Artifact, hint: str) -> Any:
    return openvino.Core().compile_model(artifact.model_path, "CPU", {"INFERENCE_PRECISION_HINT": hint})


def test_every_node_computes_in_float32(ffn: Artifact) -> None:
    runner = FLOAT32.load(ffn, 1)
    assert runner.precision() == "float32"
    assert runner.placement() == {"CPU": 6}


def test_threads_are_those_that_were_asked_for(ffn: Artifact) -> None:
    runner = FLOAT32.load(ffn, 1)
    assert isinstance(runner, OpenVinoRunner)
    assert runner._compiled.get_property("INFERENCE_NUM_THREADS") == 1
    assert runner._compiled.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32


def test_bfloat16_is_not_taken_for_float32(ffn: Artifact) -> None:
    model = compiled(ffn, "bf16")
    if not computed_in(model)["bfloat16"]:
        pytest.skip("OpenVINO computes in float32 on this processor, whatever is asked for")
    assert " nodes of this model in bfloat16, not in float32" in str(FLOAT32.misplaced(model))
    assert BFLOAT16.misplaced(model) is None
    assert OpenVinoRunner(model, ["y"]).precision() == "bfloat16, float32"


def test_float32_is_not_taken_for_bfloat16(ffn: Artifact) -> None:
    assert BFLOAT16.misplaced(compiled(ffn, "f32")) == "OpenVINO computes no node of this model in bfloat16"


def test_bfloat16_is_there_where_the_processor_has_it(ffn: Artifact) -> None:
    reason = BFLOAT16.unavailable(ffn)
    if HAS_BFLOAT16:
        assert reason is None
        assert "bfloat16" in BFLOAT16.load(ffn, 1).precision()
    else:
        assert "this processor has no bfloat16" in str(reason)


@pytest.mark.slow
def test_what_bfloat16_costs_is_no_pass(
    ffn: Artifact, source: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = OpenVino("openvino-bf16", "bfloat16", {"INFERENCE_PRECISION_HINT": "bf16"})
    monkeypatch.setattr(told, "unavailable", lambda _: None)  # stands for a processor that has bfloat16
    try:
        told.load(ffn, 1)
    except RuntimeUnavailableError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(registry, "RUNTIMES", {told.name: told})
    assert ffn.model_path is not None
    reference = TorchReference(source("t5-ffn"), 1)
    cases = sweep(reference.inputs, reference.example, 0)[:1]
    result = run_cases(ffn.model_path, reference, runtimes=["openvino-bf16"], cases=cases)
    assert result.precision == {"openvino-bf16": "bfloat16, float32"}
    assert not result.passed


def test_half_precision_is_computed_in_float32_and_says_so(tmp_path: Path) -> None:
    runner = FLOAT32.load(write(tmp_path, "(float16[N,4] x) => (float16[N,4] y)", "y = Mul(x, x)"), 1)
    assert runner.precision() == "float32"
    assert runner.run({"x": np.full((1, 4), 3, np.float16)})["y"].dtype == np.float16


def test_bfloat16_in_and_out_is_refused(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(bfloat16[N,4] x) => (bfloat16[N,4] y)", "y = Relu(x)")
    with pytest.raises(RuntimeUnavailableError, match="no arrays in bfloat16"):
        FLOAT32.load(artifact, 1)


def test_operators_of_microsoft_that_it_knows_are_run(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[N,4] x) => (float[N,4] y)", "y = com.microsoft.QuickGelu <alpha = 1.7> (x)")
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(FLOAT32.load(artifact, 1).run({"x": x})["y"], x / (1 + np.exp(-1.7 * x)), atol=1e-6)


def test_a_model_that_is_wrong_is_bad_input(tmp_path: Path) -> None:
    artifact = write(tmp_path, "(float[3,4] x) => (float[3,4] y)", "y = MatMul(x, x)")
    with pytest.raises(UsageError, match=r"OpenVINO does not load model\.onnx: .*MatMul") as caught:
        FLOAT32.load(artifact, 1)
    assert "\n" not in str(caught.value)
