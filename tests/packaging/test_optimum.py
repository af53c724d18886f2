"""Optimum takes a bundle of a Hugging Face model as a directory: `make test-optimum` runs it, in a minute or two.

Optimum wants older versions of transformers and of onnxruntime's packages, so it has an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ffn_export as fx

transformers = pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

from tests.exporter.hugging_face import models  # noqa: E402

pytestmark = pytest.mark.optimum
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
    place = tmp_path_factory.mktemp("optimum")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "optimum-onnx[onnxruntime]==0.1.0"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"optimum-onnx cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return python


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
    words_of_call = [word for name, bundle in built.items() for word in (CLASSES[name], str(bundle))]
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


def test_the_bundle_is_left_as_it_was(bundles: dict[str, Path]) -> None:
    assert fx.verify(bundles["BertModel"], runtimes=["ort-cpu"]).passed
