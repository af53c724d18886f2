"""Optimum takes a bundle of a Hugging Face model as a directory: `make test-optimum` runs it, in a minute or two.

Optimum wants older versions of transformers and of onnxruntime's packages, so it has an environment of its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx

transformers = pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

from tests.exporter.hugging_face import models  # noqa: E402
from tests.exporter.hugging_face.generation import IDS, MASK, STEPS, generate_in_torch  # noqa: E402
from tests.packaging.conftest import environment  # noqa: E402

pytestmark = pytest.mark.optimum
# Decoders that are exported with their caches.
CACHED = ("LlamaForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM")
PROGRAM = Path(__file__).with_name("optimum_program.py")
CLASSES = {
    "BertModel": "ORTModelForFeatureExtraction",
    "BertForMaskedLM": "ORTModelForMaskedLM",
    "BertForSequenceClassification": "ORTModelForSequenceClassification",
    "BertForQuestionAnswering": "ORTModelForQuestionAnswering",
    "GPT2LMHeadModel": "ORTModelForCausalLM",
    "ViTForImageClassification": "ORTModelForImageClassification",
}


@pytest.fixture(scope="module")
def optimum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Optimum."""
    return environment(tmp_path_factory.mktemp("optimum"), "optimum-onnx[onnxruntime]==0.1.0")


@pytest.fixture(scope="module")
def bundles(optimum: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A bundle of each class that Optimum has run; BERT's with a tokenizer."""
    saved, exported = tmp_path_factory.mktemp("saved"), tmp_path_factory.mktemp("exported")
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat")
    vocabulary = {word: index for index, word in enumerate(words)}
    built = {}
    for name in CLASSES:
        directory = models.save(name, saved / name)
        if name.startswith("Bert"):
            transformers.BertTokenizer(vocab=vocabulary).save_pretrained(directory)
        built[name] = fx.build(f"hf:{directory}", directory=exported, fast=True).directory
    for name in CACHED:
        spec = f"hf:{models.save(name, saved / name)}"
        built[name] = fx.build(spec, task="text-generation-with-past", directory=exported, fast=True).directory
        np.savez(exported / f"{name}-prompts.npz", input_ids=IDS, attention_mask=MASK, steps=STEPS)
    classes = CLASSES | dict.fromkeys(CACHED, "ORTModelForCausalLM")
    words_of_call = [word for name, bundle in built.items() for word in (classes[name], str(bundle))]
    command = [str(optimum), "-I", str(PROGRAM), *words_of_call]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("name", CLASSES)
def test_it_computes_what_was_verified(bundles: dict[str, Path], name: str) -> None:
    bundle = bundles[name]
    inputs, outputs = (dict(np.load(bundle.with_name(f"{bundle.name}-{kind}.npz"))) for kind in ("inputs", "outputs"))
    if name.startswith("Bert"):
        assert inputs["input_ids"].tolist() == [[2, 5, 6, 3, 7, 3]]
    expected = fx.load(bundle).run(inputs)
    assert set(outputs) <= set(expected)
    assert outputs
    for output, found in outputs.items():
        np.testing.assert_allclose(found, expected[output], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CACHED)
def test_it_generates_the_tokens_of_pytorch(
    bundles: dict[str, Path], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tokens, _ = generate_in_torch(models.save(name, tmp_path_factory.mktemp(name)))
    outputs = np.load(bundles[name].with_name(f"{name}-outputs.npz"))
    assert outputs["tokens"].tolist() == tokens.tolist()


def test_the_bundle_is_left_as_it_was(bundles: dict[str, Path]) -> None:
    assert fx.verify(bundles["BertModel"], runtimes=["ort-cpu"]).passed
