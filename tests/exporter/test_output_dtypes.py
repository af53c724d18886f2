"""Outputs have the dtype that they have in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from ffn_export import verify
from tests.exporter.helpers import exported, module_of

FORWARDS: dict[str, Callable[..., Any]] = {
    "a sum": lambda self, x: x.sum(-1),
    "a cosine": lambda self, x: F.cosine_similarity(x, x.flip(1), dim=-1, eps=1e-4),
    "several": lambda self, x: (x.relu(), x.sum(), x.sum(-1, dtype=torch.float32), x.argmax(-1)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", FORWARDS)
def test_outputs_have_the_dtypes_of_pytorch(name: str, dtype: str) -> None:
    module, inputs = module_of(FORWARDS[name]), {"x": f"{dtype}[batch,seq,8]"}
    model = exported(module, inputs)
    assert verify(model, against=module, inputs=inputs, fast=True).failures == ()
