"""Inputs of a model by convention: Optimum's names, axes and ranges.

``batch`` and ``seq`` are symbolic, and the number of positions bounds ``seq``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.directory import ModelDirectory
from ffn_export.exporter.hugging_face.tasks import Task, is_decoder_only

_BATCH = Dim("batch")
# At least 1: an empty batch has nothing to classify, and ONNX Runtime's LayerNormalization refuses it.
_PICTURES = Dim("batch", 1)
# Bound of drawn positions. The angles of rotary embeddings lose precision as positions grow, and then a test
# measures the rounding of a cosine.
_DRAWN_POSITIONS = 512
# One second, for test vectors and timing.
EXAMPLE = {"samples": 16_000}


def conventional_inputs(
    module: torch.nn.Module, config: Any, task: Task, directory: ModelDirectory
) -> tuple[TensorSpec, ...]:
    """Return the inputs of a model for a task.

    Raises:
        UsageError: If this kind of model has no convention; ``--input`` must declare its inputs.
    """
    takes = inspect.signature(module.forward).parameters
    main = str(getattr(module, "main_input_name", ""))
    if {"input_ids", "pixel_values"} <= set(takes):
        raise _no_convention(f"{type(module).__name__} takes text and pictures")
    if main == "input_ids":
        specs = _text(module, config, takes, decoder_only=is_decoder_only(directory))
    elif main == "pixel_values":
        specs = [_image(config, directory)]
    elif main in ("input_values", "input_features"):
        specs = [_sound(main, config)]
    else:
        raise _no_convention(f"{type(module).__name__} starts from {main or 'nothing known'}")
    if task.decodes and "decoder_input_ids" in takes:
        longest = _longest(module, config, "max_decoder_position_embeddings", "max_target_positions")
        specs.append(TensorSpec("decoder_input_ids", "int64", (_BATCH, Dim("decoder_seq", 0, longest))))
    return tuple(specs)


def _no_convention(what: str) -> UsageError:
    return UsageError(f"{what}, for which there is no convention: write each input with --input NAME:DTYPE[DIM,...]")


def _text(module: torch.nn.Module, config: Any, takes: Mapping[str, Any], *, decoder_only: bool) -> list[TensorSpec]:
    longest = _longest(module, config, "max_encoder_position_embeddings")
    dims = (_BATCH, Dim("seq", 0, longest))
    specs = [TensorSpec("input_ids", "int64", dims)]
    if "attention_mask" in takes:
        specs.append(TensorSpec("attention_mask", "int64", dims, is_mask=True))
    if "token_type_ids" in takes and (getattr(config, "type_vocab_size", None) or 0) > 1:
        specs.append(TensorSpec("token_type_ids", "int64", dims))
    # As in Optimum: the caller of a decoder gives the positions, since padding on the left shifts them.
    # Encoders compute positions.
    if decoder_only and "position_ids" in takes:
        last = min(longest or _DRAWN_POSITIONS, _DRAWN_POSITIONS) - 1
        specs.append(TensorSpec("position_ids", "int64", dims, (0, last)))
    return specs


def _longest(module: torch.nn.Module, config: Any, *preferred: str) -> int | None:
    """Return the largest sequence length of the model, or None if it is unbounded."""
    found = (getattr(config, name, None) for name in (*preferred, "max_position_embeddings"))
    positions = next((n for n in found if isinstance(n, int) and n > 0), None)
    if positions is None:
        return None
    # RoBERTa and similar models start positions after the padding row.
    tables = (m for name, m in module.named_modules() if name.endswith("position_embeddings"))
    lost = [t.padding_idx + 1 for t in tables if isinstance(t, torch.nn.Embedding) and t.padding_idx is not None]
    return positions - max(lost, default=0)


def _image(config: Any, directory: ModelDirectory) -> TensorSpec:
    size = getattr(config, "image_size", None) or _processed_size(directory)
    if isinstance(size, int):
        size = (size, size)
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        raise _no_convention("neither config.json nor preprocessor_config.json says how large a picture is")
    channels = getattr(config, "num_channels", None) or 3
    return TensorSpec("pixel_values", "float32", (_PICTURES, int(channels), int(size[0]), int(size[1])))


def _processed_size(directory: ModelDirectory) -> Any:
    """Return the size to which the image processor converts every image."""
    processor = directory.read_json("preprocessor_config.json")
    size = processor.get("crop_size") if processor.get("do_center_crop") else None
    size = size or processor.get("size")
    if isinstance(size, dict):
        return (size["height"], size["width"]) if {"height", "width"} <= set(size) else size.get("shortest_edge")
    return size


def _sound(name: str, config: Any) -> TensorSpec:
    bins, frames = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if name == "input_features" and bins and getattr(config, "max_source_positions", None):
        # Whisper: two frames become one position, and the input always has all frames.
        return TensorSpec(name, "float32", (_BATCH, int(bins), 2 * int(config.max_source_positions)))
    if name == "input_values" and bins and frames:
        return TensorSpec(name, "float32", (_BATCH, int(frames), int(bins)))
    if name == "input_values" and kernels and strides:
        return TensorSpec(name, "float32", (_BATCH, Dim("samples", _samples(2, kernels, strides))))
    raise _no_convention(f"config.json does not say how {name} is shaped")


def _samples(frames: int, kernels: Any, strides: Any) -> int:
    """Return the number of samples that give ``frames`` frames; a trace with one frame would look like a broadcast."""
    samples = frames
    for kernel, stride in zip(reversed(list(kernels)), reversed(list(strides)), strict=True):
        samples = (samples - 1) * int(stride) + int(kernel)
    return samples
