"""Sessions with the execution provider of ``native/``, where it is installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import onnxruntime
import pytest

NAME = "FfnExecutionProvider"


def _problem() -> str | None:
    if importlib.util.find_spec("onnxruntime_ep_ffn") is None:
        return "onnxruntime-ep-ffn is not installed: run `make native`"
    import onnxruntime_ep_ffn

    reason: str | None = onnxruntime_ep_ffn.register()
    return reason


PROBLEM = _problem()
needs_provider = pytest.mark.skipif(PROBLEM is not None, reason=str(PROBLEM))


def needs_kernel(precision: str) -> None:
    """Skip a test where the provider has no kernel of a precision for this processor."""
    import onnxruntime_ep_ffn

    kernels = onnxruntime_ep_ffn.devices()[0].ep_metadata
    if precision not in kernels:
        pytest.skip(f"no {precision} kernel fits this processor")


def multiplies_in_bfloat16() -> bool:
    """Whether bfloat16 has fast products here. Otherwise weights alone are rounded, and attention has none."""
    import onnxruntime_ep_ffn

    return "weights" not in onnxruntime_ep_ffn.devices()[0].ep_metadata["bf16"]


def session_with(
    model: bytes, precision: str, *, level: str = "ORT_ENABLE_BASIC", threads: int = 1
) -> onnxruntime.InferenceSession:
    import onnxruntime_ep_ffn

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices(onnxruntime_ep_ffn.devices(), {"precision": precision})
    return onnxruntime.InferenceSession(model, options, enable_fallback=0)


def relative_l2(got: Any, wanted: Any) -> float:
    return float(np.linalg.norm(np.float64(got) - wanted) / np.linalg.norm(np.float64(wanted)))
