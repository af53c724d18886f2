"""Attention: an empty sequence has no result, and others are judged whatever a module makes of theirs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ffn_export as fx


@pytest.mark.slow
def test_attention_takes_an_empty_sequence() -> None:
    class Attends(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, v)

    inputs = {"q": "float32[batch,2,n,4]", "k": "float32[batch,2,seq>=1,4]", "v": "float32[batch,2,seq,4]"}
    for given in (inputs, dict.fromkeys(inputs, "float32[batch,2,seq,4]")):
        result = fx.verify(fx.export(Attends(), given), Attends(), inputs=given, runtimes=["ort-cpu"])
        assert result.passed, result.failures[:2]


class Grouped(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


class Viewed(nn.Module):
    """Of which the fused kernel's result, laid out as the query, can be taken a view."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v).view(q.shape[0], -1, 8)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "heads"), [(Grouped(), 2), (Viewed(), 4)], ids=["grouped heads", "a view"])
def test_attention_is_judged_whatever_a_module_makes_of_it(module: nn.Module, heads: int) -> None:
    inputs = {"q": "float32[batch,4,seq,4]", **dict.fromkeys("kv", f"float32[batch,{heads},seq,4]")}
    result = fx.verify(fx.export(module, inputs), module, inputs=inputs, runtimes=["ort-cpu"])
    assert result.passed, result.failures[:2]
    assert not any(case.skipped for case in result.cases if all(case.sizes.values()))
