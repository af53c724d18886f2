"""Load bundles with Optimum, run them, and write their inputs and outputs.

It runs where Optimum is installed and this package is not. Arguments: pairs of an Optimum class and a bundle. A bundle
that holds a tokenizer runs on a text, one with a cache continues prompts, and another one runs on the arrays of its
test vectors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from optimum import onnxruntime as optimum  # type: ignore[import-not-found,unused-ignore]

LEVELS = {"disable_all": 0, "basic": 1, "extended": 2, "all": 99}


def session_options(bundle: Path) -> onnxruntime.SessionOptions:
    """Return the options of the manifest, under which the bundle was verified."""
    wanted = json.loads((bundle / "manifest.json").read_text())["session_options"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(LEVELS[wanted["graph_optimization_level"]])
    for key, value in wanted["config_entries"].items():
        options.add_session_config_entry(key, value)
    return options


def inputs_of(bundle: Path) -> dict[str, Any]:
    """Return the tokens of a text, or the test vectors."""
    if (bundle / "tokenizer_config.json").exists():
        return dict(transformers.AutoTokenizer.from_pretrained(bundle)("a cat", "sat", return_tensors="pt"))
    protos = map(onnx.load_tensor, sorted((bundle / "test_data_set_0").glob("input_*.pb")))
    return {proto.name: torch.from_numpy(onnx.numpy_helper.to_array(proto).copy()) for proto in protos}


def continued(model: Any, prompts: Path) -> dict[str, Any]:
    """Return the most likely tokens after each prompt."""
    given = {name: torch.from_numpy(array) for name, array in np.load(prompts).items()}
    steps = int(given.pop("steps"))
    model.generation_config.eos_token_id = None
    tokens = model.generate(**given, max_new_tokens=steps, do_sample=False, pad_token_id=0)
    return {"tokens": tokens[:, -steps:]}


for name, argument in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    bundle = Path(argument)
    prompts = bundle.with_name(f"{bundle.name}-prompts.npz")
    choices = {"use_cache": prompts.exists()} if name == "ORTModelForCausalLM" else {}
    model = getattr(optimum, name).from_pretrained(bundle, session_options=session_options(bundle), **choices)
    inputs = {} if prompts.exists() else inputs_of(bundle)
    results = continued(model, prompts) if prompts.exists() else model(**inputs)
    outputs = {key: value for key, value in results.items() if value is not None}
    for kind, arrays in (("inputs", inputs), ("outputs", outputs)):
        np.savez(bundle.with_name(f"{bundle.name}-{kind}.npz"), **{key: each.numpy() for key, each in arrays.items()})
