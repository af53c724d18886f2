"""Sessions of one model in one process hold its packed weights once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ffn_export as fx
from ffn_export.modules import FeedForward
from tests.native.provider import needs_kernel, needs_provider

pytestmark = [
    needs_provider,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").is_file(), reason="Linux tells the memory of a process"),
]

# Prints the MB that one and four sessions take, and whether all of them compute the same. What ONNX Runtime has freed
# and the allocator keeps does not count.
WORKER = """
import ctypes, json, sys
import numpy as np
from tests.native.provider import session_with

def resident():
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/smaps_rollup") as told:
        return next(int(line.split()[1]) for line in told if line.startswith("Rss:")) / 1024

feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 1024), dtype=np.float32)}
first = session_with(sys.argv[1], sys.argv[2])  # what the library itself takes does not count
wanted = first.run(None, feeds)[0]
del first
before, sessions, taken, same = resident(), [], [], True
for _ in range(4):
    sessions.append(session_with(sys.argv[1], sys.argv[2]))
    same &= np.array_equal(sessions[-1].run(None, feeds)[0], wanted)
    taken.append(resident() - before)
del sessions[0]
same &= np.array_equal(sessions[0].run(None, feeds)[0], wanted)
print(json.dumps([taken[0], taken[-1], bool(same)]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    exported = fx.export(FeedForward(1024, 4096, "gelu", dropout=0.0).eval(), {"x": "float32[batch,seq,1024]"})
    path = tmp_path_factory.mktemp("shared") / "model.onnx"
    fx.save(fx.fuse(exported, target="ort-native")[0], path)
    return path


@pytest.mark.parametrize(("precision", "least"), [("f32", 30), ("bf16", 15), ("int8", 7)])
def test_four_sessions_take_little_more_memory_than_one(model: Path, precision: str, least: int) -> None:
    needs_kernel(precision)
    words = [sys.executable, "-c", WORKER, str(model), precision]
    one, four, same = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert same
    assert one > least  # the weights are there
    assert four < 1.5 * one
