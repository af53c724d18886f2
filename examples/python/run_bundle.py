"""Run a bundle as it was verified and timed, with onnxruntime alone: ffn_export is not needed for it.

python run_bundle.py BUNDLE [--profile PREFIX] [--tolerance R]
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
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
NATIVE = "FfnExecutionProvider"
FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


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
    model = str(bundle / "model.onnx")
    if manifest["provider"] == NATIVE:
        if importlib.util.find_spec("onnxruntime_ep_ffn") is None:  # without its package, the bodies of its nodes run
            return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        import onnxruntime_ep_ffn

        if (problem := onnxruntime_ep_ffn.register()) is not None:
            raise RuntimeError(problem)
        options.add_provider_for_devices(onnxruntime_ep_ffn.devices(), manifest["provider_options"])
        return ort.InferenceSession(model, options)
    provider = (manifest["provider"], manifest.get("provider_options", {}))  # on CUDA: no TF32
    session = ort.InferenceSession(model, options, providers=[provider])
    if session.get_providers()[0] != manifest["provider"]:  # onnxruntime goes on with the CPU's, without an error
        raise RuntimeError(f"{manifest['provider']}, on which it was verified, does not load here")
    return session


def vectors(bundle: Path, kind: str, count: int) -> dict[str, np.ndarray]:
    """Return the test vectors of a kind, ``input`` or ``output``, by name."""
    files = [bundle / "test_data_set_0" / f"{kind}_{index}.pb" for index in range(count)]
    return {proto.name: numpy_helper.to_array(proto) for proto in map(onnx.load_tensor, files)}


def run(session: ort.InferenceSession, inputs: dict[str, np.ndarray], outputs: list[str]) -> dict[str, np.ndarray]:
    """Run the session, also in bfloat16, which onnxruntime takes and gives as OrtValues only."""
    feeds = {name: to_value(array) for name, array in inputs.items()}
    return dict(zip(outputs, map(to_array, session.run_with_ort_values(outputs, feeds)), strict=True))


def to_value(array: np.ndarray) -> ort.OrtValue:
    """Wrap an array."""
    if array.dtype.name != "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), onnx.TensorProto.BFLOAT16)


def to_array(value: ort.OrtValue) -> np.ndarray:
    """Return a tensor in host memory as an array."""
    if value.element_type() != onnx.TensorProto.BFLOAT16:
        held: np.ndarray = value.numpy()
        return held
    bits = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    dtype = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    return np.frombuffer(bits, dtype).reshape(value.shape())


def compare(
    name: str, actual: np.ndarray, expected: np.ndarray, manifest: dict[str, Any], tolerance: float | None = None
) -> bool:
    """Print how far an output is from the stored one, and return whether that is near enough."""
    near, words = judged(name, actual, expected, manifest, tolerance)
    print(words)
    return near


def judged(
    name: str, actual: np.ndarray, expected: np.ndarray, manifest: dict[str, Any], tolerance: float | None = None
) -> tuple[bool, str]:
    """Return whether an output is near enough to the expected one, and how far it is; NaN never is near.

    Without a tolerance it is judged as the bundle was: by its declared closeness or budget, else in units in the last
    place (ulp) at the largest stored number.
    """
    if actual.shape != expected.shape:
        return False, f"{name}: shape {list(actual.shape)}, expected {list(expected.shape)}"
    wide = expected.astype(np.float64)
    difference = np.abs(actual.astype(np.float64) - wide)
    scale = np.abs(wide).max(initial=0)
    declared = manifest["tolerances"]
    classic = declared["closeness"].get(name, declared["closeness"].get("*"))
    budget = declared["relative_l2"] if declared.get("drawn_l2") is None else declared["drawn_l2"]
    if tolerance is not None:
        bound = np.full_like(wide, tolerance * scale)
    elif classic is not None:
        bound = classic["atol"] + classic["rtol"] * np.abs(wide)
    elif budget is not None:
        found, allowed = float(np.linalg.norm(difference)), budget * float(np.linalg.norm(wide))
        words = f"{name}: L2 norm of the difference {found:.3g}, allowed {allowed:.3g}"
        return bool(found <= allowed < np.inf), words
    else:
        judged = [each["allowed_ulps"] or 0 for each in manifest["parity"]["runtimes"].values()]
        bound = np.full_like(wide, max(declared["floor_ulps"], *judged) * ulp(expected.dtype.name, scale))
    worst = np.argmax(np.where(np.isnan(difference), np.inf, difference - bound)) if wide.size else 0
    found, allowed = (float(difference.flat[worst]), float(bound.flat[worst])) if wide.size else (0.0, 0.0)
    words = f"{name}: largest difference {found:.3g}, allowed {allowed:.3g}"
    return bool(np.all((difference <= bound) & (bound < np.inf))), words


def ulp(dtype: str, scale: float) -> float:
    """Return the distance of neighbouring numbers of a dtype at a size; 0 for integers, which must be equal."""
    if scale == 0 or dtype not in FRACTION_BITS:
        return 0.0
    return float(2.0 ** (np.floor(np.log2(scale)) - FRACTION_BITS[dtype]))


def main() -> int:
    """Return the exit status: 0 near enough, 1 not, 2 it cannot be run."""
    parser = argparse.ArgumentParser(description="Run a bundle's test vectors under its own session options.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--profile", metavar="PREFIX", help="write ONNX Runtime's profile to PREFIX_<time>.json")
    parser.add_argument("--tolerance", metavar="R", type=float, help="times the largest output, not the manifest's")
    arguments = parser.parse_args()
    bundle = arguments.bundle
    ort.set_default_logger_severity(4)  # what goes wrong is raised, and said below
    try:
        manifest = json.loads((bundle / "manifest.json").read_text())
        inputs = vectors(bundle, "input", len(manifest["inputs"]))
        expected = vectors(bundle, "output", len(manifest["outputs"]))
        session = make_session(bundle, manifest, arguments.profile)
        actual = run(session, inputs, list(expected))
        near = [compare(name, actual[name], expected[name], manifest, arguments.tolerance) for name in expected]
    except Exception as error:  # noqa: BLE001  whatever is wrong with it, a user wants one line
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        print(f"{bundle} cannot be run: {reason}", file=sys.stderr)
        return 2
    if arguments.profile is not None:
        session.end_profiling()
    return 0 if all(near) else 1


if __name__ == "__main__":
    sys.exit(main())
