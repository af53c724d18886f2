"""Where the time of a run goes, operator by operator: ONNX Runtime's profile, and OpenVINO's own counters."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ffn_export.exporter.drawing import Array
from ffn_export.runtimes import openvino_cpu
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_session import make_session

_RUNS = 5
_MICROSECOND = 1e-6
_HOLDING_OTHERS = frozenset({"If", "Loop", "Scan"})  # their time is that of the nodes inside


def ort_operators(artifact: Artifact, threads: int, feeds: Mapping[str, Array]) -> dict[str, float]:
    """Return operator -> seconds of one run, as ONNX Runtime's profiler has them."""
    assert artifact.model_path is not None
    with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as scratch:
        prefix = str(Path(scratch) / "profile")
        session = make_session(artifact.model_path, artifact.settings, threads, profile_prefix=prefix)
        for _ in range(_RUNS):
            session.run(None, dict(feeds))
        events = json.loads(Path(session.end_profiling()).read_text())
    return _summed(
        (event["name"], event["args"]["op_name"], event["dur"] * _MICROSECOND)
        for event in events
        if event.get("cat") == "Node"
        and event["name"].endswith("_kernel_time")
        and event["args"]["op_name"] not in _HOLDING_OTHERS
    )


def openvino_operators(artifact: Artifact, threads: int, feeds: Mapping[str, Array]) -> dict[str, float]:
    """Return operator -> seconds of one run, as OpenVINO's counters have them, in float32."""
    import openvino

    core = openvino.Core()
    options: dict[str, Any] = {**openvino_cpu.FLOAT32.options, "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads}
    compiled = core.compile_model(
        core.read_model(artifact.model_path), openvino_cpu.DEVICE, {**options, "PERF_COUNT": True}
    )
    request = compiled.create_infer_request()
    for name, array in feeds.items():
        request.set_tensor(name, openvino.Tensor(np.asarray(array, order="C"), shared_memory=True))
    found: list[tuple[str, str, float]] = []
    for _ in range(_RUNS):
        request.infer()
        found += [
            (info.node_name, info.node_type, info.real_time.total_seconds())
            for info in request.get_profiling_info()
            if info.status == openvino.ProfilingInfo.Status.EXECUTED
        ]
    return _summed(found)


def _summed(runs: Iterable[tuple[str, str, float]]) -> dict[str, float]:
    """Sum up by operator the median time of each node, as often as a run has it, the largest first."""
    of_node: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for node, operator, seconds in runs:
        of_node[node, operator].append(seconds)
    of_operator: defaultdict[str, float] = defaultdict(float)
    for (_, operator), times in of_node.items():
        of_operator[operator] += median(times) * len(times) / _RUNS
    return dict(sorted(of_operator.items(), key=lambda item: -item[1]))
