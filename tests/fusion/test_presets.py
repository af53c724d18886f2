"""Every preset, from every opset, as each target writes it and as ONNX Runtime executes it."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from executed import executed_kernels
from ffn_export.core import onnx_file
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.report import FusionReport
from ffn_export.modules.presets import PRESETS
from ffn_export.runtimes.session_options import SessionSettings
from tests.fusion.conftest import Exported
from tests.fusion.graphs import assert_interface_kept, assert_same_function, feeds, whole

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
ROWS = "Reshape FusedGemm Shape Concat Reshape MatMul"
BIAS_GELU = "MatMul BiasGelu MatMul"
SKIP = "SkipLayerNormalization"

# The fewest nodes that onnxruntime has CPU kernels for; a bias goes into the Skip operator after it.
ORT = {
    **dict.fromkeys(("apx-ffn", "numpy-ffn", "d2l-ffn"), f"{ROWS} Add"),
    "apx-ffn-residual": f"{ROWS} Add Add",
    **dict.fromkeys(("nlp-transformers-ffn", "nlp-transformers-conv"), f"{BIAS_GELU} Add"),
    "d2l-addnorm": "Add LayerNormalization",  # normalised over two axes, which no Skip operator does
    **dict.fromkeys(("d2l-ffn-addnorm", "transformer-base", "transformer-big"), f"{ROWS} {SKIP}"),
    "bert-ffn": f"{BIAS_GELU} {SKIP}",
    "gpt2-ffn": "LayerNormalization MatMul FastGelu MatMul Add Add",
    "t5-ffn": f"RMSNormalization {ROWS} Add",
    "llama-ffn": "RMSNormalization MatMul MatMul QuickGelu Mul MatMul Add",
    "gemma-ffn": "RMSNormalization MatMul MatMul Gelu Mul MatMul Add",
}
# CUDA has no kernel for FusedGemm, and that of the residual sum and its norm loses digits in float32.
CUDA = {
    name: form.replace(ROWS, "MatMul Add Relu MatMul").replace(SKIP, "Add Add LayerNormalization")
    for name, form in ORT.items()
} | {"t5-ffn": "RMSNormalization MatMul Relu MatMul Add"}
# The nodes of ort-native are tested in ``functions/test_feed_forward_nodes.py``.
EXPECTED = {
    "portable": PORTABLE,
    "ort-cpu": {name: form.replace("Swish", "QuickGelu") for name, form in PORTABLE.items()},
    "ort": ORT,
    "ort-cuda": CUDA,
}

# onnxruntime runs a gated feed-forward depth first, and the Swish of the portable graph as its function body.
GATED = "RMSNormalization MatMul {} MatMul Mul MatMul Add"
# It works out the shape to go back to before it makes the rows.
EXECUTED_ROWS = "Shape Concat Reshape FusedGemm Reshape MatMul"
EXECUTED = {
    "portable": PORTABLE | {"llama-ffn": "Cast " + GATED.format("Mul Sigmoid Mul"), "gemma-ffn": GATED.format("Gelu")},
    **{
        target: {name: form.replace(ROWS, EXECUTED_ROWS) for name, form in EXPECTED[target].items()}
        | {"llama-ffn": GATED.format("QuickGelu"), "gemma-ffn": GATED.format("Gelu")}
        for target in ("ort-cpu", "ort", "ort-cuda")
    },
}

# The lowest opset that has every operator written: what the fused graph imports at least.
NEEDED = {
    "portable": dict.fromkeys(PORTABLE, 18)
    | {name: 20 for name, form in PORTABLE.items() if "Gelu" in form}
    | {name: 23 for name, form in PORTABLE.items() if "RMS" in form}
    | {"llama-ffn": 24}
}
NEEDED["ort-cpu"] = NEEDED["portable"] | {"llama-ffn": 23}
# Fused with its bias, a GELU is a vendor's operator and needs no opset.
NEEDED["ort"] = NEEDED["ort-cuda"] = dict.fromkeys(PORTABLE, 18) | {n: 23 for n, f in PORTABLE.items() if "RMS" in f}


def test_the_table_is_complete() -> None:
    assert set(PORTABLE) == set(PRESETS)


@pytest.mark.slow
@pytest.mark.parametrize("target", EXPECTED)
def test_as_written(exported: Exported, target: str) -> None:
    fused, report = fuse(exported.model, target, forms=whole(target))
    assert " ".join(node.op_type for node in fused.graph) == EXPECTED[target][exported.preset]
    assert fused.opset_imports[""] == max(exported.opset, NEEDED[target][exported.preset])
    assert_interface_kept(exported.model, fused)
    assert_same_function(exported.model, fused, results=exported.results)
    if target == "portable":
        onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    assert_report(report, EXPECTED[target][exported.preset])


def assert_report(report: FusionReport, form: str) -> None:
    """Every site is found, and is either fused or kept for the target's reason."""
    assert report.count("feed_forward") == (form.count("MatMul") > 0)
    assert report.count("norm") == form.count("Normalization")
    apart = [site for site in report.sites if site.kind == "residual_norm" and not site.is_in_target_form]
    assert len(apart) == form.count("Add LayerNormalization")
    assert report.count("residual_norm") == form.count(SKIP)
    if report.target in ("ort", "ort-cuda"):  # what is left apart was refused: normalised over two axes, or float32
        reason = "more than the last axis" if report.target == "ort" else "loses digits in float32"
        assert all(site.status == "refused" and reason in str(site.reason) for site in apart)
    else:
        assert {site.status for site in report.sites} <= {"rewritten", "already optimal", "kept"}
    assert all(site.rule or site.reason or site.status == "already optimal" for site in report.sites)
    for site in report.sites:
        if site.kind == "feed_forward":
            assert site.activation is not None
            assert site.d_ff is not None
            computing = [op for op in form.split() if op not in ("Reshape", "Shape", "Concat")]
            assert site.form in " ".join(computing) or site.gated


@pytest.mark.slow
@pytest.mark.parametrize("target", EXPECTED)
def test_as_executed(exported: Exported, target: str, tmp_path: Path) -> None:
    fused, _ = fuse(exported.model, target, forms=whole(target))
    onnx_file.save(fused, tmp_path / "m.onnx")
    kernels = executed_kernels(tmp_path / "m.onnx", SessionSettings(), feeds(fused))
    assert " ".join(kernel.operator for kernel in kernels) == EXECUTED[target][exported.preset]
    assert {kernel.provider for kernel in kernels} == {"CPUExecutionProvider"}
