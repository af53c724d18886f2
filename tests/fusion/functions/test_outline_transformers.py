"""One node for each feed-forward of whole transformers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from ffn_export.fusion.functions.inline import DOMAIN
from ffn_export.fusion.pipeline import fuse
from tests.fusion.functions.test_outline import assert_bit_equal, nodes
from tests.fusion.graphs import Array, assert_interface_kept, operators, run


@cache
def layers(name: str) -> ir.Model:
    """Two layers of an architecture of ``transformers``."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99,
        "attn_implementation": "eager",
    }  # fmt: skip

    class Last(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, ids: Any) -> Any:
            return self.inner(input_ids=ids).last_hidden_state

    if name == "bert":
        made = transformers.BertModel(transformers.BertConfig(**sizes), add_pooling_layer=False)
    else:
        made = transformers.LlamaModel(transformers.LlamaConfig(**sizes, num_key_value_heads=2, use_cache=False))
    spec = {"ids": "int64[batch,seq<=512]{0..98}"}
    return export_source(from_module(Last(made).eval(), spec, name), DEFAULT_OPSET)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["portable", pytest.param("ort-cpu", marks=pytest.mark.exhaustive), "ort"])
@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.exhaustive), "llama"])
def test_transformers(name: str, target: str) -> None:
    ids = {"ids": np.arange(21, dtype=np.int64).reshape(3, 7)}
    apart, _ = fuse(layers(name), target)
    one, _ = fuse(layers(name), target, outline=True)
    assert [node.op_type for node in nodes(one)] == ["FeedForward"] * 2
    assert list(one.functions) == [(DOMAIN, "FeedForward", "")]
    assert_interface_kept(layers(name), one)
    onnx.checker.check_model(ir.to_proto(one))
    assert_bit_equal(apart, one, ids)
    again, _ = fuse(one, target)
    assert sorted(operators(again)) == sorted(operators(apart))
    portable, _ = fuse(layers(name), target, outline=True, portable_functions=True)
    onnx.checker.check_model(ir.to_proto(portable))
    assert_bit_equal(apart, portable, ids)
    if name != "bert":  # the evaluator's GatherElements does not take the indices that BERT has
        assert_close(ReferenceEvaluator(ir.to_proto(portable)).run(None, ids), run(apart, ids))


def assert_close(actual: Any, expected: Sequence[Array]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert np.abs(one - other).max() <= 1e-5 * np.abs(other).max()
