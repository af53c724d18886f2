"""The wheel in environments with other versions of ONNX Runtime: one file serves them all."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from tests.native.nodes import model
from tests.native.provider import needs_provider
from tests.native.test_nodes import drawn
from tests.packaging.conftest import ROOT, environment

pytestmark = [needs_provider, pytest.mark.exhaustive]
CUSTOM, PROVIDER = "custom operators", "provider"
# 1.17 and 1.18 were built for NumPy 1.
VERSIONS = [
    ("1.17.3", "numpy<2", CUSTOM),
    ("1.19.2", "numpy", CUSTOM),
    ("1.22.1", "numpy", CUSTOM),
    ("1.23.2", "numpy", CUSTOM),
    ("1.24.4", "numpy", PROVIDER),
    ("1.26.0", "numpy", PROVIDER),
    ("1.28.0", "numpy", PROVIDER),
]
_RUN = dedent("""
    import sys
    import numpy as np, onnxruntime, onnxruntime_ep_ffn
    options = onnxruntime.SessionOptions()
    reason = onnxruntime_ep_ffn.register()
    if reason is None:
        options.add_provider_for_devices(onnxruntime_ep_ffn.devices(), {})
        session = onnxruntime.InferenceSession(sys.argv[1], options)
    else:
        assert "register_custom_ops_library" in reason, reason
        options.register_custom_ops_library(onnxruntime_ep_ffn.get_library_path())
        session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    with np.load(sys.argv[2]) as feeds:
        np.save(sys.argv[3], session.run(None, dict(feeds))[0])
    print(onnxruntime.__version__, "provider" if reason is None else "custom operators")
""")


@pytest.mark.parametrize(("version", "numpy", "kind"), VERSIONS)
def test_a_version_of_onnxruntime(version: str, numpy: str, kind: str, tmp_path: Path) -> None:
    (wheel,) = (ROOT / "native" / "dist").glob("*.whl")  # `make native` leaves it there
    python = environment(tmp_path / "environment", f"onnxruntime=={version}", numpy, str(wheel))
    feeds = {"x": drawn(2, 5, 24)}
    weights = {"w1": drawn(24, 40), "b1": drawn(40), "w2": drawn(40, 24)}
    data = model("FeedForward", feeds, weights, opset=17, activation="relu")
    (tmp_path / "model.onnx").write_bytes(data)
    np.savez(tmp_path / "feeds.npz", **feeds)
    files = [str(tmp_path / name) for name in ("model.onnx", "feeds.npz", "y.npy")]
    done = subprocess.run([str(python), "-c", _RUN, *files], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{version} {kind}"
    wanted = np.maximum(feeds["x"] @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
    assert np.allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)
