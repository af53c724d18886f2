"""What 8 bits change on real activations.

A BERT reads sentences, and what goes into each of its feed-forwards is given to that feed-forward in float32 and in
8 bits, both in ONNX Runtime.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from corpus.peers import silent
from ffn_export.core import onnx_file
from ffn_export.core.types import Array
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module, resolve
from ffn_export.fusion.forms.choice import default_forms, for_few_bits
from ffn_export.fusion.targets import get_target
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.parity.judging.metrics import relative_l2
from ffn_export.quantization.quantize import quantize_some
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.session_options import SessionSettings
from peers.ours import EIGHT_BITS, TARGET
from peers.result import Accuracy, LayerError
from peers.sentences import SENTENCES


class _FeedForward(torch.nn.Module):
    """The feed-forward of a BERT layer, alone and with its residual and norm."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.intermediate = layer.intermediate
        self.output = layer.output

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map ``[tokens, d_model]`` to both, of the same shape."""
        y = self.output.dense(self.intermediate(x))
        return y, self.output.LayerNorm(y + x)


def accuracy(name: str, where: Path, progress: Callable[[str], None]) -> Accuracy:
    """Measure it.

    Args:
        name: What the model is called.
        where: Its directory, with its tokenizer.
        progress: Called with a line.
    """
    with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as folder:
        scratch = Path(folder)
        tokens = _tokens(where)
        inputs, layers = _activations(where, tokens)
        progress(f"8 bits on the activations of {name}: {len(SENTENCES)} sentences")
        pairs = [_outputs(_FeedForward(layer), x, scratch) for layer, x in zip(layers, inputs, strict=True)]
        states = _both(export_source(resolve(f"hf:{where}")), tokens, scratch)
    alone, block = ([(exact[which], rounded[which]) for exact, rounded in pairs] for which in (0, 1))
    exact, rounded = (embedding(outputs[0], tokens["attention_mask"]) for outputs in states)
    errors = tuple(
        LayerError(number, relative_l2(p[1], p[0]), relative_l2(b[1], b[0]))
        for number, (p, b) in enumerate(zip(alone, block, strict=True))
    )
    return Accuracy(
        name,
        len(SENTENCES),
        len(inputs[0]),
        errors,
        _overall(alone),
        _overall(block),
        relative_l2(rounded, exact),
        float((exact * rounded).sum(axis=1).min()),
        float(np.mean(_nearest(exact) == _nearest(rounded))),
    )


def _tokens(where: Path) -> dict[str, Array]:
    """Read the sentences with the model's own tokenizer, padded to one length."""
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(where, local_files_only=True)
    return {name: np.asarray(array) for name, array in tokenizer(list(SENTENCES), padding=True).items()}


def _activations(where: Path, tokens: Mapping[str, Array]) -> tuple[list[Array], list[Any]]:
    """Return what goes into each feed-forward, without padding, ``[tokens, d_model]``, and the layers."""
    import transformers

    with silent():
        model: Any = transformers.AutoModel.from_pretrained(where, local_files_only=True).eval()
    layers = list(model.encoder.layer)
    found: list[Array] = []
    there = tokens["attention_mask"].astype(bool)

    def keep(module: torch.nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        del module, output
        found.append(args[0].numpy()[there])

    hooks = [layer.intermediate.dense.register_forward_hook(keep) for layer in layers]
    with torch.no_grad():
        model(**{name: torch.from_numpy(array) for name, array in tokens.items()})
    for hook in hooks:
        hook.remove()
    return found, layers


def _outputs(module: torch.nn.Module, x: Array, scratch: Path) -> tuple[list[Array], list[Array]]:
    source = from_module(module.eval(), {"x": f"float32[tokens,{x.shape[1]}]"})
    return _both(export_source(source), {"x": x}, scratch)


def _both(model: ir.Model, feeds: Mapping[str, Array], scratch: Path) -> tuple[list[Array], list[Array]]:
    """Return the outputs of the fused model in float32, and those of the quantised one."""
    fused, _ = fuse_checked(model, TARGET, check=False, forms=for_few_bits(default_forms(get_target(TARGET))))
    quantized, _ = quantize_some(fused, EIGHT_BITS)
    first, second = (_run(each, feeds, scratch / "model.onnx") for each in (fused, quantized))
    return first, second


def _run(model: ir.Model, feeds: Mapping[str, Array], path: Path) -> list[Array]:
    onnx_file.save(model, path)
    names = {str(value.name) for value in model.graph.inputs}
    return list(OrtRunner(make_session(path, SessionSettings())).run({n: feeds[n] for n in names}).values())


def _overall(pairs: list[tuple[Array, Array]]) -> float:
    return relative_l2(np.concatenate([pair[1] for pair in pairs]), np.concatenate([pair[0] for pair in pairs]))


def embedding(states: Array, mask: Array) -> Array:
    """The mean over the tokens that are there, of length 1, as the model's card has it."""
    mean = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    embedding: Array = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return embedding


def _nearest(embeddings: Array) -> Array:
    """Return for each sentence which other one is nearest."""
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -1.0)
    nearest: Array = similarity.argmax(axis=1)
    return nearest
