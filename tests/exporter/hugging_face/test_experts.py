"""Modules of a user's own with experts of transformers are exported and judged, whatever way they are set to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor, nn

from ffn_export import export, fuse, verify
from ffn_export.core.quiet import silent
from ffn_export.exporter.experts import as_products

INPUTS = {"hidden": "float32[batch,seq,32]"}
EXPERTS = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 9,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


class Block(nn.Module):
    """One layer's experts with their router, as in a user's model around them."""

    def __init__(self, kind: str, implementation: str) -> None:
        super().__init__()
        with silent():
            config: Any = getattr(transformers, f"{kind}Config")(**EXPERTS)
            config._experts_implementation = implementation
            self.layer = getattr(transformers, f"{kind}Model")(config).layers[0].mlp

    def forward(self, hidden: Tensor) -> Any:
        result: Any = self.layer(hidden)
        return result[0] if isinstance(result, tuple) else result


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "implementation"),
    [
        ("Mixtral", "grouped_mm"),
        ("GptOss", "eager"),
        pytest.param("Mixtral", "eager", marks=pytest.mark.exhaustive),
        pytest.param("GptOss", "grouped_mm", marks=pytest.mark.exhaustive),
    ],
)
def test_they_are_exported_as_products(kind: str, implementation: str) -> None:
    torch.manual_seed(0)
    module = Block(kind, implementation)
    fused, report = fuse(export(module, INPUTS))
    (site,) = report.sites
    assert (site.kind, site.status) == ("feed_forward", "kept")
    assert "4 experts are a stack" in str(site.reason)
    assert module.layer.experts.config._experts_implementation == implementation

    result = verify(fused, against=module, inputs=INPUTS, runtimes=["ort-cpu"])
    assert result.passed
    assert all(case.skipped is None for case in result.cases if 0 not in case.sizes.values())


def test_a_module_without_experts_is_left_as_it_is() -> None:
    linear = nn.Linear(2, 2)
    with as_products(linear):
        assert not hasattr(linear, "config")


def test_configurations_inside_others_are_put_back() -> None:
    with silent():
        outer: Any = transformers.LlavaConfig()
    outer._experts_implementation = "eager"
    outer.text_config._experts_implementation = "grouped_mm"
    module: Any = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    module[0].config, module[1].config = outer.text_config, outer
    with as_products(module):
        assert outer.text_config._experts_implementation == "batched_mm"
    assert (outer._experts_implementation, outer.text_config._experts_implementation) == ("eager", "grouped_mm")
