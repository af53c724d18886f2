"""The library in environments with other versions of ONNX Runtime: one file, built once, serves them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from tests.native.nodes import model
from tests.native.provider import needs_provider
from tests.native.test_nodes import drawn

pytestmark = [needs_provider, pytest.mark.exhaustive]
# Those before 1.24 take the custom operators. 1.17 and 1.18 have no package for NumPy 2.
VERSIONS = ["1.19.2", "1.22.1", "1.23.2", "1.24.4", "1.26.0", "1.28.0"]
_RUN = dedent("""
    import importlib.util, sys
    import numpy as np, onnxruntime
    spec = importlib.util.spec_from_file_location("onnxruntime_ep_ffn", sys.argv[1])
    import importlib.metadata
    importlib.metadata.version = lambda name: "0"  # the package is used where it lies
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    options = onnxruntime.SessionOptions()
    reason = package.register()
    if reason is None:
        options.add_provider_for_devices(package.devices(), {})
        session = onnxruntime.InferenceSession(sys.argv[2], options)
    else:
        assert "register_custom_ops_library" in reason, reason
        options.register_custom_ops_library(package.get_library_path())
        session = onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
    with np.load(sys.argv[3]) as feeds:
        got = session.run(None, dict(feeds))[0]
    np.save(sys.argv[4], got)
    print(onnxruntime.__version__, "provider" if reason is None else "custom operators")
""")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_of_onnxruntime(version: str, tmp_path: Path) -> None:
    import onnxruntime_ep_ffn

    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"onnxruntime=={version}", "numpy"], check=True)

    feeds = {"x": drawn(2, 5, 24)}
    weights = {"w1": drawn(24, 40), "b1": drawn(40), "w2": drawn(40, 24)}
    data = model("FeedForward", feeds, weights, opset=17, activation="relu")
    (tmp_path / "model.onnx").write_bytes(data)
    np.savez(tmp_path / "feeds.npz", **feeds)
    script = tmp_path / "run.py"
    script.write_text(_RUN)
    package = Path(onnxruntime_ep_ffn.__file__)
    files = [package, tmp_path / "model.onnx", tmp_path / "feeds.npz", tmp_path / "y.npy"]
    done = subprocess.run([python, script, *files], check=True, capture_output=True, text=True)
    kind = "provider" if tuple(map(int, version.split(".")[:2])) >= (1, 24) else "custom operators"
    assert done.stdout.strip().endswith(f"{version} {kind}")
    wanted = np.maximum(feeds["x"] @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
    assert np.allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)
