"""What the index of a folder says of a build."""

from __future__ import annotations

from pathlib import Path

from bundle_index import index_entry
from ffn_export.bundle.build import Build
from ffn_export.fusion.report import FusionReport
from ffn_export.latency.result import LatencyResult, Measurement, Ratio


def test_times_with_copies_are_listed_and_no_warning() -> None:
    slow = Ratio("ort-cuda", "torch", 1.5, 1.4, 1.6)
    copied = Ratio("ort-cuda", "torch", 3.0, 2.9, 3.1, copies=True)
    latency = LatencyResult("m.onnx", "torch", (Measurement({"batch": 1}, (), (slow, copied)),))
    entry = index_entry("a", "d2l-ffn", "ort", "float32", Build(Path("a"), FusionReport("ort", ()), latency=latency))
    assert entry.ratio == {"ort-cuda": {"batch=1": 1.5}, "ort-cuda with copies": {"batch=1": 3.0}}
    assert entry.warnings == ("ort-cuda takes 1.50 x torch at batch=1",)
