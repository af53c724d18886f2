"""A wrong model is caught: through the command line, with default options, exit status 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
import pytest

from ffn_export.cli.main import run
from ffn_export.exporter import onnx_file
from tests.parity import faults

CASES = [
    ("gpt2-ffn", faults.other_gelu, "ort-cpu"),
    ("bert-ffn", faults.other_gelu, "ort-cpu"),
    ("gemma-ffn", faults.other_gelu, "ort-cpu"),
    ("transformer-base", faults.epsilon(1e-12), "ort-cpu"),
    ("d2l-addnorm", faults.epsilon(1e-12), "ort-cpu"),
    ("gpt2-ffn", faults.epsilon(1e-12), "ort-cpu"),
    ("t5-ffn", faults.epsilon(1e-5), "ort-cpu"),
    ("bert-ffn", faults.scaled_weight(1.01), "initializer"),
    ("bert-ffn", faults.scaled_weight(1.01, index=1_000_000), "initializer"),
    ("llama-ffn", faults.scaled_weight(1.001), "initializer"),
    ("numpy-ffn", faults.scaled_weight(1.01), "initializer"),
    ("transformer-base", faults.doubled_bias, "ort-cpu"),
    ("apx-ffn", faults.nan_weight, "NaN"),
    ("apx-ffn", faults.static_batch, "fixed to 4"),
    ("llama-ffn", faults.negated_activation, "ort-cpu"),
    ("d2l-ffn", faults.renamed_output, "something_else"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "plant", "word"),
    CASES,
    ids=[f"{p}-{f.__qualname__.split('.')[0]}-{i}" for i, (p, f, _) in enumerate(CASES)],
)
def test_fault_is_caught(
    preset: str,
    plant: faults.Fault,
    word: str,
    fused_file: Callable[..., Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = ir.load(fused_file(preset))
    plant(model)
    faulty = tmp_path / "faulty.onnx"
    onnx_file.save(model, faulty)
    assert faulty.read_bytes() != fused_file(preset).read_bytes()

    assert run(["verify", str(faulty), "--against", preset]) == 1
    error = capfd.readouterr().err
    assert "parity failed" in error
    assert word in error


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["bert-ffn", "transformer-base", "d2l-addnorm"])
def test_the_same_command_passes_without_the_fault(preset: str, fused_file: Callable[..., Path]) -> None:
    assert run(["verify", str(fused_file(preset)), "--against", preset, "--quiet"]) == 0
