"""Whole models, exported, fused and judged: the graph gives what the model gives, padding and all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
import transformers  # type: ignore[import-not-found,unused-ignore]

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.core.quiet import silent
from ffn_export.exporter.precision import convert
from ffn_export.exporter.source import from_module
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.verbs.source_spec import SourceSpec
from tests.exporter.hugging_face.conftest import Saved

Exported = Callable[[str], Path]


@pytest.fixture(scope="session")
def exported(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The file of a class's model, exported by its SPEC alone and fused."""
    root = tmp_path_factory.mktemp("graphs")

    def write(name: str) -> Path:
        onnx_file.save(fx.fuse(fx.export(f"hf:{saved(name)}"))[0], root / f"{name}.onnx")
        return root / f"{name}.onnx"

    return cache(write)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("BertModel", {"last_hidden_state": "[batch,seq,32]", "pooler_output": "[batch,32]"}),
        pytest.param("BertForMaskedLM", {"logits": "[batch,seq,99]"}, marks=pytest.mark.exhaustive),
        pytest.param("BertForSequenceClassification", {"logits": "[batch,3]"}, marks=pytest.mark.exhaustive),
        pytest.param(
            "BertForQuestionAnswering",
            {"start_logits": "[batch,seq]", "end_logits": "[batch,seq]"},
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("RobertaForMaskedLM", {"logits": "[batch,seq,99]"}, marks=pytest.mark.exhaustive),
        pytest.param("GPT2LMHeadModel", {"logits": "[batch,seq,99]"}, marks=pytest.mark.exhaustive),
        # With its cache it is judged at all sizes in every run.
        pytest.param("LlamaForCausalLM", {"logits": "[batch,seq,99]"}, marks=pytest.mark.exhaustive),
        pytest.param("MixtralForCausalLM", {"logits": "[batch,seq,99]"}, marks=pytest.mark.exhaustive),
        pytest.param("T5ForConditionalGeneration", {"logits": "[batch,decoder_seq,99]"}, marks=pytest.mark.exhaustive),
        pytest.param("T5EncoderModel", {"last_hidden_state": "[batch,seq,32]"}, marks=pytest.mark.exhaustive),
        pytest.param(
            "BartForConditionalGeneration", {"logits": "[batch,decoder_seq,99]"}, marks=pytest.mark.exhaustive
        ),
        pytest.param("ViTForImageClassification", {"logits": "[batch,2]"}, marks=pytest.mark.exhaustive),
        pytest.param("ConvNextForImageClassification", {"logits": "[batch,2]"}, marks=pytest.mark.exhaustive),
        pytest.param(
            "WhisperForConditionalGeneration", {"logits": "[batch,decoder_seq,99]"}, marks=pytest.mark.exhaustive
        ),
        pytest.param("Wav2Vec2ForCTC", {"logits": None}, marks=pytest.mark.exhaustive),
    ],
)
def test_a_model_passes_parity_by_its_spec_alone(
    saved: Saved, exported: Exported, name: str, outputs: dict[str, str | None]
) -> None:
    graph = onnx_file.load(exported(name)).graph
    assert [value.name for value in graph.outputs] == list(outputs)
    for value, shape in zip(graph.outputs, outputs.values(), strict=True):
        assert shape is None or str(value.shape) == shape
    result = fx.verify(exported(name), against=f"hf:{saved(name)}", runtimes=["ort-cpu"])
    assert result.passed, result.failures
    judged = [case for case in result.cases if case.skipped is None]
    assert len(judged) >= 4
    finite = [case for case in judged if not case.values.startswith(("nan", "infinite"))]  # and those "in parts"
    assert all(metrics.actual.nan == metrics.actual.inf == 0 for case in finite for metrics in case.outputs)
    # PyTorch itself refuses what holds nothing, and says why.
    refused = [case for case in result.cases if case.skipped is not None]
    assert all(0 in case.sizes.values() for case in refused)
    assert all("itself refuses these inputs" in str(case.skipped) for case in refused)


@pytest.mark.integration
@pytest.mark.parametrize(
    "name",
    [
        "BertModel",
        "LlamaForCausalLM",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("GPT2LMHeadModel", "T5EncoderModel")),
    ],
)
def test_padding_changes_nothing_of_what_is_there(exported: Exported, name: str) -> None:
    runner = OrtCpu().load(Artifact(exported(name)), 1)
    takes = {str(value.name) for value in onnx_file.load(exported(name)).graph.inputs}
    ids = np.array([[5, 17, 3, 60]])

    def output(left: int, right: int) -> np.ndarray:
        padding = ((0, 0), (left, right))
        mask = np.pad(np.ones_like(ids), padding)
        feeds = {
            "input_ids": np.pad(ids, padding, constant_values=9),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
            "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        }
        result = next(iter(runner.run({k: v for k, v in feeds.items() if k in takes}).values()))
        return result[:, left : left + ids.shape[1]]

    np.testing.assert_allclose(output(0, 3), output(0, 0), rtol=1e-4, atol=1e-5)
    if "position_ids" in takes:  # encoders count their positions by themselves, from the left
        np.testing.assert_allclose(output(3, 0), output(0, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.integration
def test_the_graph_gives_what_the_librarys_own_attention_gives(saved: Saved, exported: Exported) -> None:
    """It is exported with eager attention; a user of transformers runs the fused one."""
    with silent():
        model = transformers.AutoModel.from_pretrained(saved("BertModel"), attn_implementation="sdpa").eval()
    ids = np.array([[5, 17, 3, 60, 9], [7, 8, 9, 0, 0]])
    feeds = {"input_ids": ids, "attention_mask": np.array([[1] * 5, [1, 1, 1, 0, 0]]), "token_type_ids": ids % 2}
    with torch.no_grad():
        expected = model(**{name: torch.tensor(array) for name, array in feeds.items()}).last_hidden_state.numpy()
    actual = OrtCpu().load(Artifact(exported("BertModel")), 1).run(feeds)["last_hidden_state"]
    there = feeds["attention_mask"] == 1
    np.testing.assert_allclose(actual[there], expected[there], rtol=1e-4, atol=1e-5)


@pytest.mark.integration
def test_own_inputs_and_task_reach_the_graph(saved: Saved) -> None:
    inputs = ["input_ids:int64[2,seq<=8]", "attention_mask:int64[2,seq]{mask}"]
    model = fx.export(f"hf:{saved('BertForMaskedLM')}", inputs, task="feature-extraction")
    shapes = {str(value.name): str(value.shape) for value in (*model.graph.inputs, *model.graph.outputs)}
    assert shapes == {
        "input_ids": "[2,seq]",
        "attention_mask": "[2,seq]",
        "last_hidden_state": "[2,seq,32]",
    }


@pytest.mark.integration
@pytest.mark.exhaustive  # bundles of one directory are compared byte for byte in every run
def test_the_same_directory_gives_the_same_graph(exported_anew: None, saved: Saved) -> None:
    first, second = (fx.export(f"hf:{saved('BertModel')}") for _ in range(2))
    as_bytes = (ir.to_proto(model).SerializeToString(deterministic=True) for model in (first, second))
    assert len(set(as_bytes)) == 1


@pytest.mark.integration
@pytest.mark.parametrize("dtype", ["float16", pytest.param("mixed", marks=pytest.mark.exhaustive)])
def test_a_model_can_be_had_in_half_precision(saved: Saved, dtype: str) -> None:
    spec = f"hf:{saved('BertModel')}"
    result = fx.verify(fx.export(spec, dtype=dtype), against=spec, dtype=dtype, runtimes=["ort-cpu"])
    assert result.passed, result.failures


@pytest.mark.integration
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_half_model_is_the_one_that_the_library_loads(saved: Saved, dtype: str) -> None:
    """It keeps what the model computes with in float32: rotary frequencies, and in float16 T5's last product."""
    for name in ("LlamaForCausalLM", "T5ForConditionalGeneration"):
        source = SourceSpec(f"hf:{saved(name)}", dtype=dtype).source()
        with silent():
            wanted = getattr(transformers, name).from_pretrained(saved(name), dtype=getattr(torch, dtype))
        for (key, ours), (same, theirs) in zip(
            (*source.module.named_parameters(), *source.module.named_buffers()),
            (*wanted.named_parameters(), *wanted.named_buffers()),
            strict=True,
        ):
            assert (key, ours.dtype) == (same, theirs.dtype)
            assert torch.equal(ours, theirs), key


def test_a_model_of_the_library_in_memory_keeps_its_rotary_frequencies(saved: Saved) -> None:
    with silent():
        model = transformers.LlamaForCausalLM.from_pretrained(saved("LlamaForCausalLM"))
    frequencies = model.get_buffer("model.rotary_emb.inv_freq").clone()
    source = convert(from_module(model, {"input_ids": "int64[batch,seq]"}), "bfloat16")
    assert torch.equal(source.module.get_buffer("model.rotary_emb.inv_freq"), frequencies)
    assert source.module.get_parameter("lm_head.weight").dtype is torch.bfloat16


@pytest.mark.integration
def test_mixed_reaches_the_linear_layers_of_gpt2(saved: Saved) -> None:
    spec = f"hf:{saved('GPT2LMHeadModel')}"
    model = fx.export(spec, dtype="mixed")
    read = {
        kind: {str(v.dtype) for n in model.graph if n.op_type in kind for v in n.inputs if v and v.is_initializer()}
        for kind in (("MatMul",), ("Gather",))
    }
    assert read["MatMul",] == {"FLOAT16"}
    assert "FLOAT16" not in read["Gather",]  # one of the tables is the last product's matrix, too
    result = fx.verify(model, against=spec, dtype="mixed", runtimes=["ort-cpu"])
    assert result.passed, result.failures
