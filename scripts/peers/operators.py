"""Where the time of a run goes, operator by operator: ONNX Runtime's profile, and OpenVINO's own counters."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from executed import end_profile
from ffn_export.core.types import Array
from ffn_export.runtimes import openvino_cpu
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_session import make_session

_RUNS = 8


@dataclass(frozen=True)
class Profile:
    """A session that takes its runs apart.

    Attributes:
        run: Runs it once.
        read: Gives operator -> seconds of one run, once all have been made.
    """

    run: Callable[[], None]
    read: Callable[[], dict[str, float]]


def taken_apart(profiles: Mapping[str, Profile]) -> dict[str, dict[str, float]]:
    """Return name -> operator -> seconds of one run; they run in turn, as where their whole time is taken."""
    for _ in range(_RUNS):
        for profile in profiles.values():
            profile.run()
    return {name: profile.read() for name, profile in profiles.items()}


def ort_profile(artifact: Artifact, threads: int, feeds: Mapping[str, Array]) -> Profile:
    """Load a model into ONNX Runtime with its profiler on."""
    assert artifact.model_path is not None
    scratch = tempfile.TemporaryDirectory(prefix="ffn-benchmark-")
    prefix = str(Path(scratch.name) / "profile")
    session = make_session(artifact.model_path, artifact.settings, threads, profile_prefix=prefix)

    def read() -> dict[str, float]:
        with scratch:
            kernels = end_profile(session)
        return _summed((kernel.node, kernel.operator, kernel.seconds) for kernel in kernels if not kernel.holds_others)

    return Profile(lambda: session.run(None, dict(feeds)), read)


def openvino_profile(artifact: Artifact, threads: int, feeds: Mapping[str, Array]) -> Profile:
    """Load a model into OpenVINO, in float32, with its counters on."""
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

    def run() -> None:
        request.infer()
        found.extend(
            (info.node_name, info.node_type, info.real_time.total_seconds())
            for info in request.get_profiling_info()
            if info.status == openvino.ProfilingInfo.Status.EXECUTED
        )

    return Profile(run, lambda: _summed(found))


def _summed(runs: Iterable[tuple[str, str, float]]) -> dict[str, float]:
    """Sum up by operator the median time of each node, as often as a run has it, the largest first."""
    of_node: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for node, operator, seconds in runs:
        of_node[node, operator].append(seconds)
    of_operator: defaultdict[str, float] = defaultdict(float)
    for (_, operator), times in of_node.items():
        of_operator[operator] += median(times) * len(times) / _RUNS
    return dict(sorted(of_operator.items(), key=lambda item: -item[1]))
