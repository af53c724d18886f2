"""Memory that ``ffn-export quantize`` takes for a model, in a real process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import ffn_export as fx

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does"),
]
MIB = 2**20

# A process that is started counts the memory of the one that starts it, which must be small.
COUNTING = """
import resource, subprocess, sys
status = subprocess.run([sys.executable, *sys.argv[1:]]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def model(directory: Path, width: int) -> tuple[Path, float]:
    """Write feed-forwards and samples for them; return the path and the size of the weights in MiB."""
    torch.manual_seed(0)
    layers = [(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)) for _ in range(8)]
    module = torch.nn.Sequential(*(module for layer in layers for module in layer)).eval()
    path = directory / f"{width}.onnx"
    fx.save(fx.fuse(fx.export(module, {"x": f"float32[batch,seq,{width}]"}))[0], path)
    np.savez(path.with_suffix(".npz"), x=np.random.default_rng(0).standard_normal((4, 9, width)).astype(np.float32))
    return path, sum(each.nbytes for each in module.parameters()) / MIB


def quantized(path: Path) -> tuple[float, str]:
    """Quantise a model in a process; return the largest memory of the process in MiB, and what it printed."""
    command = ["-m", "ffn_export", "quantize", path, "-o", path.with_suffix(".q.onnx"), "--int8", "--all"]
    command += ["--samples", path.with_suffix(".npz"), "--budget", "0.2", "--runtime", "ort-cpu"]
    ran = subprocess.run(
        [sys.executable, "-c", COUNTING, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout.splitlines()[-1]) / 1024, " ".join(ran.stderr.split())


def test_it_stays_near_the_weights(tmp_path: Path) -> None:
    (small, _), (large, weights) = model(tmp_path, 16), model(tmp_path, 640)
    base, (peak, said) = quantized(small)[0], quantized(large)
    printed = re.search(r"at most (\d+) MiB of memory with pages mapped from files and (\d+) without", said)
    assert weights > 50
    assert printed is not None
    mapped, private = map(float, printed.groups())
    # With both models in memory it took three and a half times the weights.
    assert peak - base < 2 * weights
    assert private < 1.5 * weights
    assert private <= mapped < peak - base + 0.6 * weights
