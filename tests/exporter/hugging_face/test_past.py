"""A decoder with its cache: the graph generates the text that PyTorch does, token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.exporter.source import resolve
from ffn_export.fusion.report import FusionReport
from ffn_export.parity.reference.references import graph_inputs
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from tests.exporter.helpers import refusal
from tests.exporter.hugging_face import models
from tests.exporter.hugging_face.conftest import Saved
from tests.exporter.hugging_face.generation import IDS, MASK, STEPS, generate_in_torch

pytestmark = pytest.mark.usefixtures("shell_words")
TASK = "text-generation-with-past"
# Rotated positions with grouped heads, and learned positions.
FAMILIES = ["LlamaForCausalLM", "GPT2LMHeadModel"]
FURTHER = [
    *("Qwen3ForCausalLM", "GemmaForCausalLM", "Qwen2ForCausalLM", "MistralForCausalLM", "Gemma3ForCausalLM"),
    *("MixtralForCausalLM", "Qwen3MoeForCausalLM", "Gemma2ForCausalLM", "Phi3ForCausalLM", "Starcoder2ForCausalLM"),
    *("FalconForCausalLM", "OPTForCausalLM", "GPTNeoXForCausalLM", "BloomForCausalLM"),
]
NAMES = [*FAMILIES, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in FURTHER)]

Fused = Callable[[str], tuple[Path, FusionReport]]


@pytest.fixture(scope="module")
def fused(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Fused:
    """The file of a class's model with its cache, exported by its SPEC alone and fused."""
    root = tmp_path_factory.mktemp("graphs")

    def write(name: str) -> tuple[Path, FusionReport]:
        model, report = fx.fuse(fx.export(f"hf:{saved(name)}", task=TASK))
        onnx_file.save(model, root / f"{name}.onnx")
        return root / f"{name}.onnx", report

    return cache(write)


def generate(path: Path, ids: np.ndarray, mask: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Return the logits of the last token in each step, in which the most likely token is taken."""
    runner = OrtCpu().load(Artifact(path), 1)
    empty = {"batch": len(ids), "past": 0}
    specs = graph_inputs(onnx_file.load(path))
    past = {s.name: np.zeros(s.shape(empty), np.float32) for s in specs if s.name.startswith("past_key_values.")}
    logits = []
    for _ in range(steps):
        positions = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, -ids.shape[1] :]
        feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, **past}
        results = runner.run({spec.name: feeds[spec.name] for spec in specs})  # ALiBi takes no positions
        logits.append(results.pop("logits")[:, -1])
        past = {name.replace("present", "past_key_values"): array for name, array in results.items()}
        ids = logits[-1].argmax(axis=-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(ids)], axis=1)
    return np.stack(logits, axis=1)


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_it_generates_the_tokens_of_pytorchs_cache(saved: Saved, fused: Fused, name: str) -> None:
    tokens, expected = generate_in_torch(saved(name))
    logits = generate(fused(name)[0], IDS, MASK)
    assert logits.argmax(axis=-1).tolist() == tokens.tolist()
    assert tokens.shape == (2, STEPS)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [*FAMILIES[:1], *(pytest.param(n, marks=pytest.mark.exhaustive) for n in FAMILIES[1:])]
)
def test_the_oracle_passes_it_at_all_sizes(saved: Saved, fused: Fused, name: str) -> None:
    result = fx.verify(fused(name)[0], against=f"hf:{saved(name)}", task=TASK, runtimes=["ort-cpu"])
    assert result.passed, result.failures
    judged = [case for case in result.cases if case.skipped is None]
    assert any(case.sizes["past"] == 0 and case.sizes["seq"] > 1 for case in judged)  # a prefill
    assert any(case.sizes["seq"] == 1 and case.sizes["past"] > 1 for case in judged)  # a step
    assert "mask padded on the left" in {case.values for case in judged}
    assert all(0 in (case.sizes["batch"], case.sizes["seq"]) for case in result.cases if case.skipped is not None)


@pytest.mark.integration
def test_as_many_sites_are_fused_as_without_a_cache(saved: Saved, fused: Fused) -> None:
    _, report = fused("LlamaForCausalLM")
    _, without = fx.fuse(fx.export(f"hf:{saved('LlamaForCausalLM')}"))
    statuses = [Counter((site.kind, site.status) for site in each.sites) for each in (report, without)]
    assert statuses[0] == statuses[1]
    assert statuses[0]["feed_forward", "rewritten"] == 2


@pytest.mark.integration
def test_names_axes_and_order_are_those_of_optimum(fused: Fused) -> None:
    graph = onnx_file.load(fused("LlamaForCausalLM")[0]).graph
    assert {str(value.name): str(value.shape) for value in graph.inputs} == {
        "input_ids": "[batch,seq]",
        "attention_mask": "[batch,past+seq]",
        "position_ids": "[batch,seq]",
        **{f"past_key_values.{layer}.{kind}": "[batch,2,past,8]" for layer in (0, 1) for kind in ("key", "value")},
    }
    assert {str(value.name): str(value.shape) for value in graph.outputs} == {
        "logits": "[batch,seq,99]",
        **{f"present.{layer}.{kind}": "[batch,2,past+seq,8]" for layer in (0, 1) for kind in ("key", "value")},
    }


def test_the_inputs_say_how_long_the_mask_is(saved: Saved) -> None:
    source = resolve(f"hf:{saved('LlamaForCausalLM')}", task="causal-lm-with-past")
    specs = {spec.name: str(spec) for spec in source.inputs}
    assert specs["attention_mask"] == "int64[batch,past+seq]{mask}"
    assert specs["past_key_values.1.value"] == "float32[batch,2,past<=1024,8]"
    assert source.task == TASK
    assert resolve(source.spec, specs, task=TASK).inputs == source.inputs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"past_key_values.1.key": None},
            "input 'past_key_values.1.key' of the cache is missing: add --input "
            "'past_key_values.1.key:float32[batch,2,past<=1024,8]'",
        ),
        ({"past_key_values.2.key": "float32[batch,2,past,8]"}, "'past_key_values.2.key' is no input of hf:"),
        ({"attention_mask": "int64[batch,pasd+seq]{mask}"}, "adds 'pasd', which is no axis of an input"),
    ],
)
def test_own_inputs_hold_the_whole_cache(saved: Saved, changes: dict[str, Any], words: str) -> None:
    spec = f"hf:{saved('LlamaForCausalLM')}"
    inputs = {each.name: str(each) for each in resolve(spec, task=TASK).inputs} | changes
    given = {name: text for name, text in inputs.items() if text is not None}
    assert words in refusal(UsageError, resolve, spec, given, task=TASK)


def test_a_cache_for_an_encoder_is_refused(tmp_path: Path) -> None:
    spec = f"hf:{models.save('GPT2LMHeadModel', tmp_path / 'gpt2', add_cross_attention=True)}"
    words = "GPT2LMHeadModel keeps earlier tokens in EncoderDecoderCache, and a cache holds the keys and values of each"
    assert words in refusal(UsageError, resolve, spec, task=TASK)


@pytest.mark.integration
def test_a_bundle_takes_steps_and_refuses_a_mask_of_the_new_tokens_alone(saved: Saved, tmp_path: Path) -> None:
    built = fx.build(f"hf:{saved('LlamaForCausalLM')}", task=TASK, directory=tmp_path, fast=True)
    assert fx.verify(built.directory, runtimes=["ort-cpu"], fast=True).passed
    session = fx.load(built.directory)
    past = {
        f"past_key_values.{layer}.{kind}": np.zeros((1, 2, 4, 8), np.float32)
        for layer in (0, 1)
        for kind in ("key", "value")
    }
    feeds = {"input_ids": np.array([[7]]), "position_ids": np.array([[4]]), **past}
    results = session.run({**feeds, "attention_mask": np.ones((1, 5), np.int64)})
    assert results["logits"].shape == (1, 1, 99)
    assert results["present.1.value"].shape == (1, 2, 5, 8)
    words = "axis 'past+seq' is 1 in input 'attention_mask', the other inputs make it 5"
    assert words in refusal(UsageError, session.run, {**feeds, "attention_mask": np.ones((1, 1), np.int64)})
