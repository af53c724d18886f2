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


def quantized(path: Path) -> tuple[float, list[float]]:
    """Quantise a model in a process; return its largest memory, and the three sizes that it printed, in MiB."""
    command = ["-m", "ffn_export", "quantize", path, "-o", path.with_suffix(".q.onnx"), "--int8", "--all"]
    command += ["--samples", path.with_suffix(".npz"), "--budget", "0.2", "--runtime", "ort-cpu"]
    ran = subprocess.run(
        [sys.executable, "-c", COUNTING, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said = " ".join(ran.stderr.split())
    printed = re.search(r"at most (\d+) MiB of .* mapped from files and (\d+) without, beside (\d+) of Python", said)
    assert printed is not None, said
    return int(ran.stdout.splitlines()[-1]) / 1024, [float(size) for size in printed.groups()]


def test_it_stays_near_the_weights(tmp_path: Path) -> None:
    (small, _), (large, weights) = model(tmp_path, 16), model(tmp_path, 640)
    assert weights > 50
    # What a model without weights takes is that of the program: code that it loads, buffers of a run.
    (base, (_, base_private, _)), (peak, (mapped, private, python)) = quantized(small), quantized(large)
    # With both models in memory it took three and a half times the weights.
    assert peak - base < 2 * weights
    assert private - base_private < 1.2 * weights
    assert private <= mapped
    # The numbers printed are rounded, and those of the system.
    assert peak - 3 < python + mapped <= peak + 1
