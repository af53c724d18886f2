"""Whole transformers in nodes of native kernels: every product and attention, the same numbers, and the way back."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from ffn_export.fusion.functions.inline import written_out
from ffn_export.fusion.functions.outline import outlined
from ffn_export.fusion.pipeline import fuse, rewrite
from tests.fusion.functions.nodes import at_level, nodes
from tests.fusion.graphs import Array, assert_interface_kept, operators, run
from tests.native.provider import NAME, PROBLEM, needs_kernel, needs_provider, relative_l2, session_with

pytestmark = pytest.mark.integration

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
IDS, MASK = "int64[batch>=1,seq<=64]{0..98}", "int64[batch>=1,seq<=64]{mask}"
TEXT = {"input_ids": IDS, "attention_mask": MASK}
LAYERS = {"FeedForward": 2, "Linear": 4, "Attention": 2}
# Name -> class, configuration, inputs, nodes, and norms that stay: behind the embeddings, or behind the last layer.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, str], dict[str, int], int]] = {
    "bert": ("BertModel", SIZES, TEXT, LAYERS, 1),
    "gpt2": ("GPT2Model", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99}, TEXT, LAYERS, 1),
    "llama": ("LlamaModel", {**SIZES, "num_key_value_heads": 2}, TEXT, LAYERS, 1),
    "qwen": ("Qwen2Model", {**SIZES, "num_key_value_heads": 2}, TEXT, LAYERS, 1),
    "vit": (
        "ViTModel",
        {**{name: size for name, size in SIZES.items() if name != "vocab_size"}, "image_size": 32, "patch_size": 8},
        {"pixel_values": "float32[batch>=1,3,32,32]"},
        LAYERS,
        1,
    ),
    "t5": (
        "T5Model",
        {"d_model": 64, "d_ff": 96, "num_layers": 2, "num_heads": 4, "d_kv": 16, "vocab_size": 99},
        {"input_ids": IDS, "decoder_input_ids": "int64[batch>=1,target<=64]{0..98}"},
        {"FeedForward": 4, "Linear": 14, "Attention": 6},
        2,
    ),
}


# Attention as transformers takes it by default leaves other nodes behind; `make exhaustive` takes what others show too.
CASES = [("bert", "sdpa"), ("gpt2", "eager"), ("llama", "sdpa"), ("vit", "sdpa"), ("t5", "eager")]
FURTHER = [("bert", "eager"), ("qwen", "eager")]


@pytest.fixture(
    scope="module",
    params=[*CASES, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in FURTHER)],
    ids="-".join,
)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A model and its attention; all tests of one follow each other, so that one process exports it."""
    name, attention = request.param
    return name, attention


@cache
def fused(name: str, attention: str) -> ir.Model:
    """Return a small model with random weights, exported and fused, without the nodes."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    kind, config, inputs, _, _ = MODELS[name]

    class First(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *given: Any) -> Any:
            found = self.inner(**dict(zip(inputs, given, strict=True)), return_dict=False)
            return found[0]

    made_from = getattr(transformers, kind)
    made = made_from._from_config(made_from.config_class(**config, use_cache=False), attn_implementation=attention)
    with torch.no_grad():
        for parameter in made.parameters():  # norms and biases that show
            parameter.add_(0.1 * torch.randn_like(parameter))
    source = from_module(First(made).eval(), inputs, name)
    return rewrite(export_source(source, DEFAULT_OPSET), "ort-native").model


def drawn(of: ir.Model, batch: int = 3, length: int = 11) -> dict[str, Array]:
    sizes = {"batch": batch, "seq": length, "target": 5}
    draw, found = np.random.default_rng(length), dict[str, Array]()
    for value in of.graph.inputs:
        shape = [dim if isinstance(dim, int) else sizes[str(dim.value)] for dim in value.shape or ()]
        if value.dtype == ir.DataType.FLOAT:
            found[str(value.name)] = draw.standard_normal(shape).astype(np.float32)
        elif value.name == "attention_mask":
            found["attention_mask"] = (np.arange(length) < length - np.arange(batch)[:, None]).astype(np.int64)
        else:
            found[str(value.name)] = draw.integers(0, 99, shape)
    return found


def test_all_of_it_is_nodes(case: tuple[str, str]) -> None:
    of = fused(*case)
    made = outlined(of)
    *_, expected, norms = MODELS[case[0]]
    assert dict(made.nodes) == expected
    kinds = Counter(operators(made.model))
    assert kinds["MatMul"] == kinds["Gemm"] == kinds["Softmax"] == 0
    assert kinds["LayerNormalization"] + kinds["RMSNormalization"] == norms
    onnx.checker.check_model(ir.to_proto(made.model))
    assert_interface_kept(of, made.model)
    for batch, length in ((3, 11), (1, 1), (2, 64)):
        inputs = drawn(of, batch, length)
        for whole, body, again in zip(
            run(of, inputs), run(made.model, inputs), run(written_out(made.model), inputs), strict=True
        ):
            assert np.array_equal(body, again)
            assert np.array_equal(body, whole), np.abs(body - whole).max()


def test_at_the_default_level_too(case: tuple[str, str]) -> None:
    of = fused(*case)
    inputs = drawn(of)
    import onnxruntime

    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    for whole, body in zip(run(of, inputs), at_level(outlined(of).model, level, inputs), strict=True):
        assert relative_l2(body, whole) < 2e-6


@needs_provider
@pytest.mark.parametrize(("precision", "bound"), [("f32", 2e-6), ("bf16", 2e-2), ("int8", 8e-2)])
def test_the_kernels_compute_the_same(case: tuple[str, str], precision: str, bound: float) -> None:
    needs_kernel(precision)
    assert PROBLEM is None
    of = fused(*case)
    made = outlined(of)
    session = session_with(ir.to_proto(made.model).SerializeToString(), precision)
    placed = session.get_provider_graph_assignment_info()
    assert sum(len(part.get_nodes()) for part in placed if part.ep_name == NAME) == sum(made.nodes.values())
    inputs = drawn(of)
    for whole, native in zip(run(of, inputs), session.run(None, inputs), strict=True):
        assert relative_l2(native, whole) < bound


def test_it_is_fused_for_another_target_again(case: tuple[str, str]) -> None:
    apart, _ = fuse(fused(*case), "portable")
    again, _ = fuse(outlined(fused(*case)).model, "portable")
    assert nodes(again) == []
    assert again.functions == {}
    inputs = drawn(apart)
    for one, other in zip(run(apart, inputs), run(again, inputs), strict=True):
        assert relative_l2(other, one) < 2e-6
