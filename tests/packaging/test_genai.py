"""onnxruntime-genai generates with a bundle and the layout of docs/hugging-face.md, in an environment of its own.

`make test-optimum` runs it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ffn_export as fx

pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

from tests.exporter.hugging_face import models
from tests.exporter.hugging_face.generation import IDS, STEPS, generate_in_torch
from tests.packaging.conftest import ROOT, environment

pytestmark = pytest.mark.optimum
PROGRAM = Path(__file__).with_name("genai_program.py")


def layout(config: dict[str, Any]) -> dict[str, Any]:
    """Return the layout of the page, with the numbers of ``config.json``; no token ends the text."""
    (written,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "hugging-face.md").read_text(), re.DOTALL)
    told: dict[str, Any] = json.loads(written)
    model, decoder = told["model"], told["model"]["decoder"]
    size = config["hidden_size"] // config["num_attention_heads"]
    model |= {"vocab_size": config["vocab_size"], "context_length": 64, "eos_token_id": config["vocab_size"] - 2}
    decoder |= {name: config[name] for name in decoder if name in config} | {"head_size": size}
    told["search"]["max_length"] = 64
    return told


def test_it_generates_the_tokens_of_pytorch(tmp_path: Path) -> None:
    python = environment(tmp_path / "genai", "onnxruntime-genai==0.18.0")
    directory = models.save("LlamaForCausalLM", tmp_path / "llama")
    built = fx.build(f"hf:{directory}", task="text-generation-with-past", directory=tmp_path / "exported", fast=True)
    copy = Path(shutil.copytree(built.directory, tmp_path / "copy"))
    (copy / "genai_config.json").write_text(json.dumps(layout(json.loads((copy / "config.json").read_text()))))
    command = [str(python), "-I", str(PROGRAM), str(copy), str(STEPS), *map(str, IDS[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == generate_in_torch(directory)[0][1].tolist()
