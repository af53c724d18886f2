"""Every preset, from every opset, as each target writes it and as ONNX Runtime executes it."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from ffn_export.exporter import onnx_file
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.runtimes.ort_cpu import executed_kernels
from ffn_export.runtimes.session_options import SessionSettings
from tests.fusion.conftest import Exported
from tests.fusion.graphs import assert_interface_kept, assert_same_function, feeds

RELU = "MatMul Add Relu MatMul Add"
GELU = "MatMul Add Gelu MatMul Add"

PORTABLE = {
    "apx-ffn": RELU,
    "apx-ffn-residual": f"{RELU} Add",
    "nlp-transformers-ffn": GELU,
    "nlp-transformers-conv": GELU,
    "numpy-ffn": RELU,
    "d2l-ffn": RELU,
    "d2l-addnorm": "Add LayerNormalization",
    "d2l-ffn-addnorm": f"{RELU} Add LayerNormalization",
    "transformer-base": f"{RELU} Add LayerNormalization",
    "transformer-big": f"{RELU} Add LayerNormalization",
    "bert-ffn": f"{GELU} Add LayerNormalization",
    "gpt2-ffn": f"LayerNormalization {GELU} Add",
    "t5-ffn": "RMSNormalization MatMul Relu MatMul Add",
    "llama-ffn": "RMSNormalization MatMul MatMul Swish Mul MatMul Add",
    "gemma-ffn": "RMSNormalization MatMul MatMul Gelu Mul MatMul Add",
}
EXPECTED = {
    "portable": PORTABLE,
    "ort-cpu": {name: form.replace("Swish", "QuickGelu") for name, form in PORTABLE.items()},
}

# onnxruntime runs a gated feed-forward depth first, and the Swish of the portable graph as its function body.
GATED = "RMSNormalization MatMul {} MatMul Mul MatMul Add"
EXECUTED = {
    "portable": PORTABLE | {"llama-ffn": "Cast " + GATED.format("Mul Sigmoid Mul"), "gemma-ffn": GATED.format("Gelu")},
    "ort-cpu": PORTABLE | {"llama-ffn": GATED.format("QuickGelu"), "gemma-ffn": GATED.format("Gelu")},
}

# The lowest opset that has every operator written: what the fused graph imports at least.
NEEDED = {
    "portable": dict.fromkeys(PORTABLE, 18)
    | {name: 20 for name, form in PORTABLE.items() if "Gelu" in form}
    | {name: 23 for name, form in PORTABLE.items() if "RMS" in form}
    | {"llama-ffn": 24}
}
NEEDED["ort-cpu"] = NEEDED["portable"] | {"llama-ffn": 23}


def test_the_table_is_complete() -> None:
    assert set(PORTABLE) == set(PRESETS)


@pytest.mark.parametrize("target", TARGETS)
def test_as_written(exported: Exported, target: str) -> None:
    fused, report = fuse(exported.model, target)
    assert " ".join(node.op_type for node in fused.graph) == EXPECTED[target][exported.preset]
    assert fused.opset_imports[""] == max(exported.opset, NEEDED[target][exported.preset])
    assert_interface_kept(exported.model, fused)
    assert_same_function(exported.model, fused)
    onnx.checker.check_model(ir.to_proto(fused), full_check=target == "portable")
    assert_report(report, EXPECTED[target][exported.preset])


def assert_report(report: FusionReport, form: str) -> None:
    """Every site is found, and is either fused or kept for the target's reason."""
    assert report.count("feed_forward") == (form.count("MatMul") > 0)
    assert report.count("norm") == form.count("Normalization")
    assert report.count("residual_norm", "kept") == form.count("Add LayerNormalization")
    assert {site.status for site in report.sites} <= {"fused", "kept"}
    assert all(site.rule or site.reason for site in report.sites)
    for site in report.sites:
        if site.kind == "feed_forward":
            assert site.activation is not None
            assert site.d_ff is not None
            assert site.form in form or site.gated


@pytest.mark.parametrize("target", TARGETS)
def test_as_executed(exported: Exported, target: str, tmp_path: Path) -> None:
    fused, _ = fuse(exported.model, target)
    onnx_file.save(fused, tmp_path / "m.onnx")
    kernels = executed_kernels(tmp_path / "m.onnx", SessionSettings(), feeds(fused))
    assert " ".join(kernel.operator for kernel in kernels) == EXECUTED[target][exported.preset]
    assert {kernel.provider for kernel in kernels} == {"CPUExecutionProvider"}
