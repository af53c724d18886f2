"""Every preset in half precision, as each target writes it, judged by a runtime that can run it here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.precision import HALVES, convert
from ffn_export.exporter.source import resolve
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.cached_reference import RememberingReference
from tests.families import some_of_them
from tests.fusion.graphs import assert_interface_kept, feeds, run
from tests.fusion.test_presets import EXPECTED, ROWS


def written(preset: str, target: str, dtype: str) -> str:
    """The operators of a preset in half precision: those of float32, but for FusedGemm, which has no bfloat16."""
    form = EXPECTED["ort-cpu" if target == "ort-native" else target][preset]  # native kernels are for float32
    if target == "ort-cuda":  # which keeps the two apart in float32 only
        form = form.replace("Add Add LayerNormalization", "SkipLayerNormalization")
    if target == "ort" and dtype == "bfloat16" and ROWS in form:
        # No kernel takes it on CPU, in one node or in several: plain nodes are the form.
        return form.replace(ROWS, "MatMul Relu MatMul" if preset == "t5-ffn" else "MatMul Add Relu MatMul")
    return form


# Wide ones take long, and so does the reference evaluator, which judges bfloat16.
JUDGED = {"float16": ("d2l-ffn-addnorm", "llama-ffn"), "bfloat16": ("d2l-ffn-addnorm",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "dtype"),
    [
        pytest.param(preset, dtype, marks=[] if preset in JUDGED[dtype] else pytest.mark.exhaustive)
        for preset in PRESETS
        for dtype in HALVES
    ],
)
def test_as_written_and_as_judged(preset: str, dtype: str, tmp_path: Path) -> None:
    source = convert(resolve(preset), dtype)
    exported = export_source(source)
    reference = RememberingReference(source, 1)
    # The rest is left to float32: the reference evaluator, which judges bfloat16, is slow.
    kinds = ("normal", "offset", "zeros", "nan")
    cases = [case for case in sweep(source.inputs) if 257 not in case.sizes.values() and case.values in kinds]
    judged: set[str] = set()
    for target in TARGETS:
        fused, report = fuse(exported, target)
        assert " ".join(node.op_type for node in fused.graph) == written(preset, target, dtype)
        assert report.count("feed_forward", "refused") == report.count("norm", "refused") == 0
        path = tmp_path / f"{target}.onnx"
        onnx_file.save(fused, path)
        result = run_cases(path, reference, cases=cases)
        assert result.failures == ()
        judged |= set(result.judged)
        assert all(result.unavailable.values())
    assert judged == ({"ort-cpu"} if dtype == "float16" else {"reference"})


# Products in float16, all else in float32: the bias is added behind the Cast, so no kernel takes it with the product.
RELU = "Cast MatMul Cast Add Relu Cast MatMul Cast"
GELU = "Cast MatMul Cast Add Gelu Cast MatMul Cast"
BIAS_GELU = "Cast MatMul Cast BiasGelu Cast MatMul Cast"
GATED = "RMSNormalization Cast MatMul Cast MatMul Cast {} Mul Cast MatMul Cast Add"
SKIP, NORM = "SkipLayerNormalization", "Add Add LayerNormalization"
MIXED = {
    "portable": {
        **dict.fromkeys(("apx-ffn", "numpy-ffn", "d2l-ffn"), f"{RELU} Add"),
        "apx-ffn-residual": f"{RELU} Add Add",
        **dict.fromkeys(("nlp-transformers-ffn", "nlp-transformers-conv"), f"{GELU} Add"),
        "d2l-addnorm": "Add LayerNormalization",
        **dict.fromkeys(("d2l-ffn-addnorm", "transformer-base", "transformer-big"), f"{RELU} {NORM}"),
        "bert-ffn": f"{GELU} {NORM}",
        "gpt2-ffn": f"LayerNormalization {GELU} Add Add",
        "t5-ffn": "RMSNormalization Cast MatMul Cast Relu Cast MatMul Cast Add",
        "llama-ffn": GATED.format("Swish"),
        "gemma-ffn": GATED.format("Gelu"),
    },
    "ort": {
        **dict.fromkeys(("apx-ffn", "numpy-ffn", "d2l-ffn"), f"{RELU} Add"),
        "apx-ffn-residual": f"{RELU} Add Add",
        **dict.fromkeys(("nlp-transformers-ffn", "nlp-transformers-conv"), f"{BIAS_GELU} Add"),
        "d2l-addnorm": "Add LayerNormalization",
        **dict.fromkeys(("d2l-ffn-addnorm", "transformer-base", "transformer-big"), f"{RELU} {SKIP}"),
        "bert-ffn": f"{BIAS_GELU} {SKIP}",
        "gpt2-ffn": "LayerNormalization Cast MatMul Cast FastGelu Cast MatMul Cast Add Add",
        "t5-ffn": "RMSNormalization Cast MatMul Cast Relu Cast MatMul Cast Add",
        "llama-ffn": GATED.format("QuickGelu"),
        "gemma-ffn": GATED.format("Gelu"),
    },
}


def test_the_table_of_mixed_precision_is_complete() -> None:
    assert all(set(forms) == set(PRESETS) for forms in MIXED.values())


@pytest.mark.slow
@pytest.mark.parametrize("preset", some_of_them(PRESETS))
def test_mixed(preset: str) -> None:
    exported = export_source(convert(resolve(preset), "mixed"))
    inputs = feeds(exported)
    expected = run(exported, inputs)
    for target, forms in MIXED.items():
        fused, report = fuse(exported, target)
        assert " ".join(node.op_type for node in fused.graph) == forms[preset]
        assert_interface_kept(exported, fused)
        for one, other in zip(expected, run(fused, inputs), strict=True):
            assert one.dtype == other.dtype == np.float32
            # A number beside the middle of two halves is rounded to either, and products of many differ by that.
            assert np.abs(one - other).max() <= 4e-3 * np.abs(one).max()
        assert report.count("feed_forward", "refused") == report.count("norm", "refused") == 0
        kept = [site.reason for site in report.sites if (site.kind, site.status) == ("feed_forward", "kept")]
        apart = target == "ort" and "Add Relu" in forms[preset]
        assert [str(reason).partition(",")[0] for reason in kept] == (
            ["2 nodes compute between its two products: Add Relu"] if apart else []
        )
