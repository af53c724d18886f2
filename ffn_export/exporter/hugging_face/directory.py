"""Open a local model directory, and check its files before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffn_export.core import plain_file
from ffn_export.errors import UsageError

CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_FOREIGN = ("*.h5", "*.msgpack", "*.gguf", "*.ot", "*.onnx", "*.ckpt", "*.safetensors", "*.bin", "*.pt", "*.pth")
_LFS_POINTER = b"version https://git-lfs"

# Files that a caller of the model needs besides the graph, to make inputs from text, images and audio,
# and to read its outputs.
_COMPANIONS = (
    CONFIG,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "bpe.codes",
    "dict.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "spm.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "image_processor_config.json",
    "feature_extractor_config.json",
)


@dataclass(frozen=True)
class ModelDirectory:
    """A directory that ``save_pretrained`` wrote, or that was downloaded from the Hub.

    Attributes:
        path: Path of the directory.
        config: Content of ``config.json``.
    """

    path: Path
    config: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The directory's name, without its parents."""
        return self.path.resolve().name

    @property
    def model_type(self) -> str:
        """Name of the architecture in ``config.json``."""
        return str(self.config["model_type"])

    @property
    def architectures(self) -> tuple[str, ...]:
        """Names of the classes that the weights were saved from."""
        return tuple(self.config.get("architectures") or ())

    def companions(self) -> dict[str, Path]:
        """Return the files that ship with the model: name -> path."""
        return {name: self.path / name for name in _COMPANIONS if (self.path / name).is_file()}

    def read_json(self, name: str) -> Mapping[str, Any]:
        """Return the content of a JSON file of the directory, empty if the file does not exist.

        Raises:
            UsageError: If the file is not a JSON object.
        """
        path = self.path / name
        if not path.is_file():
            return {}
        data = plain_file.read_json(path)
        if not isinstance(data, dict):
            raise UsageError(f"{path} is no JSON object")
        return data


def open_directory(text: str) -> ModelDirectory:
    """Open the directory that ``hf:TEXT`` names.

    Raises:
        UsageError: If the directory does not exist, or holds no model that can be loaded without running
            the model's code.
    """
    if not text:
        raise UsageError("hf: names no directory: write hf:PATH, a directory with config.json and weights")
    path = Path(text).expanduser()
    if not path.exists() and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", text):
        raise UsageError(
            f"there is no directory {text!r}, and nothing is downloaded: for a model of the Hub run "
            f"`hf download {text} --local-dir {Path(text).name}` first, then name hf:{Path(text).name}"
        )
    if not path.is_dir():
        raise UsageError(
            f"{path} is a file: name the directory that holds config.json and the weights"
            if path.exists()
            else f"no such directory: {path}"
        )
    directory = ModelDirectory(path, ModelDirectory(path, {}).read_json(CONFIG))
    if (path / "adapter_config.json").is_file():
        raise UsageError(f"{path} holds an adapter: merge it into its base model (merge_and_unload) and save that")
    if not (path / CONFIG).is_file():
        raise UsageError(f"{path} is no Hugging Face model: it has no {CONFIG}")
    _check_config(directory)
    _check_weights(path)
    return directory


def _check_config(directory: ModelDirectory) -> None:
    where = directory.path / CONFIG
    if not isinstance(directory.config.get("model_type"), str):
        raise UsageError(f"{where} has no model_type, so nothing says which architecture it is")
    code = directory.config.get("auto_map")
    if code:
        named = next(iter(code.values())) if isinstance(code, dict) else code
        raise UsageError(
            f"{where} asks for code of its own (auto_map: {named}), which is never run: build the module yourself "
            "and name package.module:factory"
        )
    if directory.config.get("quantization_config"):
        raise UsageError(f"{where} describes quantized weights, which are not taken: name the unquantized model")


def _check_weights(path: Path) -> None:
    present = [path / name for name in _WEIGHTS if (path / name).is_file()]
    if not present:
        others = sorted({file.name for pattern in _FOREIGN for file in path.glob(pattern)})
        found = f" (it has {', '.join(others[:3])})" if others else ""
        raise UsageError(
            f"{path} has no weights: it needs {_WEIGHTS[0]} or {_WEIGHTS[2]}, in one file or sharded{found}"
        )
    with present[0].open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise UsageError(f"{present[0]} is a pointer of Git LFS and not the weights: run `git lfs pull` there")
