"""The whole way of a module, in whatever versions are installed: `make test-oldest` runs it with the oldest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.modules import GatedFeedForward

pytestmark = pytest.mark.oldest
INPUTS = {"x": "float32[batch,seq,16]"}
MODULES: Mapping[str, Callable[[], nn.Module]] = {
    "encoder": lambda: nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True),
    "pre-norm": lambda: nn.TransformerEncoderLayer(16, 2, 32, norm_first=True, batch_first=True),
    "gated": lambda: GatedFeedForward(16, 32, "silu", dropout=0.0),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("opset", [18, 20])
def test_it_is_exported_fused_and_verified(name: str, opset: int) -> None:
    torch.manual_seed(0)  # torch draws a seed of its own in each process otherwise
    module = MODULES[name]().eval()
    model = fx.export(module, INPUTS, opset=opset)
    fused, report = fx.fuse(model)
    assert report.check is not None
    assert report.check.status == "passed"
    result = fx.verify(fused, against=module, inputs=INPUTS, runtimes=["ort-cpu", "reference"])
    assert result.passed, result.failures


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_bundle_is_built_verified_and_loaded(dtype: str, tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, dtype=dtype)
    assert fx.verify(built.directory).passed
    session = fx.load(built.directory)
    assert session.run({"x": np.zeros((2, 3, 4), dtype)})["y"].shape == (2, 3, 4)


def test_the_commands(tmp_path: Path) -> None:
    model, fused = (str(tmp_path / f"{name}.onnx") for name in ("model", "fused"))
    page, junit = (str(tmp_path / name) for name in ("report.html", "junit.xml"))
    for words in (
        ["list"],
        ["export", "d2l-ffn", "-o", model],
        ["fuse", model, "-o", fused, "--target", "ort-cpu"],
        ["inspect", fused],
        ["verify", fused, "--against", "d2l-ffn", "--runtime", "ort-cpu", "--html", page, "--junit", junit],
        ["bench", fused, "--against", "d2l-ffn", "--tokens", "4"],
        ["diff", model, fused],
    ):
        assert run(words) == 0, words
