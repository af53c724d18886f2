"""Export PyTorch feed-forward and LayerNorm modules to ONNX, fuse them, prove that they are the same.

Importing the package is light: torch and onnxruntime load when a function first needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffn_export._lazy import attach

if TYPE_CHECKING:
    from ffn_export.api import bench, bisect, build, create, export, fuse, quantize, tune, verify
    from ffn_export.bundle.build import Build
    from ffn_export.bundle.load import Session, load
    from ffn_export.choosing import Tuned
    from ffn_export.errors import (
        ExportError,
        FfnExportError,
        GateError,
        IntegrityError,
        RuntimeUnavailableError,
        UsageError,
    )
    from ffn_export.fusion.forms import Forms
    from ffn_export.fusion.report import FusionReport, Site
    from ffn_export.latency.result import LatencyResult
    from ffn_export.modules.presets import PRESETS
    from ffn_export.parity.bisection.result import Bisection
    from ffn_export.parity.result import ParityResult
    from ffn_export.parity.tolerances import Tolerances
    from ffn_export.quantization.options import QuantizationOptions
    from ffn_export.quantization.result import QuantizationReport
    from ffn_export.quantizing import Quantized
    from ffn_export.tuning.options import TuneOptions
    from ffn_export.tuning.result import TuningResult

_ORIGINS = {
    **dict.fromkeys(("bench", "bisect", "build", "create", "export", "fuse", "quantize", "tune", "verify"), "api"),
    "load": "bundle.load",  # not by way of api: an application that embeds a bundle needs no torch
    "Build": "bundle.build",
    "Session": "bundle.load",
    "Forms": "fusion.forms",
    "FusionReport": "fusion.report",
    "Site": "fusion.report",
    "LatencyResult": "latency.result",
    "PRESETS": "modules.presets",
    "Bisection": "parity.bisection.result",
    "ParityResult": "parity.result",
    "Tolerances": "parity.tolerances",
    "QuantizationOptions": "quantization.options",
    "QuantizationReport": "quantization.result",
    "Quantized": "quantizing",
    "TuneOptions": "tuning.options",
    "Tuned": "choosing",
    "TuningResult": "tuning.result",
    **dict.fromkeys(
        ("ExportError", "FfnExportError", "GateError", "IntegrityError", "RuntimeUnavailableError", "UsageError"),
        "errors",
    ),
}

__all__ = [
    "PRESETS",
    "Bisection",
    "Build",
    "ExportError",
    "FfnExportError",
    "Forms",
    "FusionReport",
    "GateError",
    "IntegrityError",
    "LatencyResult",
    "ParityResult",
    "QuantizationOptions",
    "QuantizationReport",
    "Quantized",
    "RuntimeUnavailableError",
    "Session",
    "Site",
    "Tolerances",
    "TuneOptions",
    "Tuned",
    "TuningResult",
    "UsageError",
    "bench",
    "bisect",
    "build",
    "create",
    "export",
    "fuse",
    "load",
    "quantize",
    "tune",
    "verify",
]
__version__ = "0.1.0"

# Hidden from type checkers, which would otherwise take any misspelt name for an object.
if not TYPE_CHECKING:
    __getattr__ = attach(__name__, _ORIGINS)
