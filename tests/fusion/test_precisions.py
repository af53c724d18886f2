"""Every preset in half precision, as each target writes it, judged by a runtime that can run it here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.exporter import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.precision import HALVES, convert
from ffn_export.exporter.source import resolve
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.parity.cases import sweep
from ffn_export.parity.references import TorchReference
from ffn_export.parity.verify import verify
from tests.fusion.test_presets import CUDA, EXPECTED

# PyTorch's kernel keeps the statistics of an RMSNorm in float32, so the operator stands between two Casts.
RMS, CAST_RMS = "RMSNormalization", "Cast RMSNormalization Cast"


def written(preset: str, target: str, dtype: str) -> str:
    """The operators of a preset in half precision: those of float32, but for Casts and what has no bfloat16."""
    without_fused_gemm = target == "ort" and dtype == "bfloat16"
    form = CUDA[preset] if without_fused_gemm else EXPECTED[target][preset]
    return form.replace(RMS, CAST_RMS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("preset", PRESETS)
def test_as_written_and_as_judged(preset: str, dtype: str, tmp_path: Path) -> None:
    source = convert(resolve(preset), dtype)
    exported = export_source(source)
    reference = TorchReference(source, 1)
    # The large sizes are left to float32: the reference evaluator, which judges bfloat16, is slow.
    cases = [case for case in sweep(source.inputs) if 257 not in case.sizes.values()]
    judged: set[str] = set()
    for target in TARGETS:
        fused, report = fuse(exported, target)
        assert " ".join(node.op_type for node in fused.graph) == written(preset, target, dtype)
        assert report.count("feed_forward", "refused") == report.count("norm", "refused") == 0
        path = tmp_path / f"{target}.onnx"
        onnx_file.save(fused, path)
        result = verify(path, reference, cases=cases)
        assert result.failures == ()
        judged |= set(result.judged)
        assert all(result.unavailable.values())
    assert judged == ({"ort-cpu"} if dtype == "float16" else {"reference"})
