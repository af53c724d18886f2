"""Run a bundle as it was verified and timed, with onnxruntime alone: ffn_export is not needed for it.

python run_bundle.py BUNDLE [--profile PREFIX] [--tolerance R]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

LEVELS = {
    "disable_all": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def processors() -> int:
    """Return the processors that this process may use; ONNX Runtime's own default counts all of the machine."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())  # a container's share of time
    except (OSError, ValueError):  # no Linux, or "max": no limit
        return count
    return max(1, min(count, -(-quota // period)))


def make_session(bundle: Path, manifest: dict[str, Any], profile: str | None = None) -> ort.InferenceSession:
    """Make a session with the options of the bundle, and so with the nodes that were measured."""
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[manifest["session_options"]["graph_optimization_level"]]
    for key, value in manifest["session_options"]["config_entries"].items():
        options.add_session_config_entry(key, value)
    options.intra_op_num_threads = processors()
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    provider = (manifest["provider"], manifest.get("provider_options", {}))  # on CUDA: no TF32
    session = ort.InferenceSession(str(bundle / "model.onnx"), options, providers=[provider])
    if session.get_providers()[0] != manifest["provider"]:  # onnxruntime goes on with the CPU's, without an error
        raise RuntimeError(f"{manifest['provider']}, on which it was verified, does not load here")
    return session


def vectors(bundle: Path, kind: str, count: int) -> dict[str, np.ndarray]:
    """Return the test vectors of a kind, ``input`` or ``output``, by name."""
    files = [bundle / "test_data_set_0" / f"{kind}_{index}.pb" for index in range(count)]
    return {proto.name: numpy_helper.to_array(proto) for proto in map(onnx.load_tensor, files)}


def compare(name: str, actual: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Print how far an output is from the stored one, and return whether that is near enough; NaN never is."""
    if actual.shape != expected.shape:
        print(f"{name}: shape {list(actual.shape)}, expected {list(expected.shape)}")
        return False
    wide = expected.astype(np.float64)
    largest = np.abs(actual.astype(np.float64) - wide).max(initial=0)
    allowed = tolerance * np.abs(wide).max(initial=0)
    print(f"{name}: largest difference {largest:.3g}, allowed {allowed:.3g}")
    return bool(largest <= allowed < np.inf)


def main() -> int:
    """Return the exit status: 0 near enough, 1 not, 2 it cannot be run."""
    parser = argparse.ArgumentParser(description="Run a bundle's test vectors under its own session options.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--profile", metavar="PREFIX", help="write ONNX Runtime's profile to PREFIX_<time>.json")
    parser.add_argument("--tolerance", metavar="R", type=float, default=1e-5, help="times the largest output (1e-5)")
    arguments = parser.parse_args()
    bundle = arguments.bundle
    ort.set_default_logger_severity(4)  # what goes wrong is raised, and said below
    try:
        manifest = json.loads((bundle / "manifest.json").read_text())
        inputs = vectors(bundle, "input", len(manifest["inputs"]))
        expected = vectors(bundle, "output", len(manifest["outputs"]))
        session = make_session(bundle, manifest, arguments.profile)
        actual = dict(zip(expected, session.run(list(expected), inputs), strict=True))
    except Exception as error:  # noqa: BLE001  whatever is wrong with it, a user wants one line
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        print(f"{bundle} cannot be run: {reason}", file=sys.stderr)
        return 2
    if arguments.profile is not None:
        session.end_profiling()
    near = [compare(name, actual[name], expected[name], arguments.tolerance) for name in expected]
    return 0 if all(near) else 1


if __name__ == "__main__":
    sys.exit(main())
