"""Load a Hugging Face directory as a module with its inputs and companion files."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ffn_export.core.one_line import first_line
from ffn_export.core.quiet import silent
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.errors import ExportError, UsageError
from ffn_export.exporter import experts
from ffn_export.exporter.hugging_face import past
from ffn_export.exporter.hugging_face.directory import CONFIG, ModelDirectory, open_directory
from ffn_export.exporter.hugging_face.inputs import EXAMPLE, conventional_inputs
from ffn_export.exporter.hugging_face.library import transformers
from ffn_export.exporter.hugging_face.tasks import Task, choose
from ffn_export.exporter.hugging_face.weights import load_weights

PREFIX = "hf:"
_CACHE = ("past_key_values", "use_cache", "cache_params", "cache_position")


@dataclass(frozen=True)
class HuggingFaceModel:
    """A model loaded from a directory.

    Attributes:
        module: The model with its task's head and outputs, in evaluation mode.
        name: Name of the directory.
        task: Name of the task.
        inputs: Inputs of the graph.
        takes: Names of the inputs that the module can take.
        companions: Name -> path of the files that belong beside the graph.
        reference: Class of the model, and version of the library.
        example: Preferred sizes of symbolic dimensions.
    """

    module: torch.nn.Module
    name: str
    task: str
    inputs: tuple[TensorSpec, ...]
    takes: Collection[str]
    companions: Mapping[str, Path]
    reference: str
    example: Mapping[str, int]


def load_model(
    path: str, task: str | None, inputs: tuple[TensorSpec, ...] | None, dtype: torch.dtype = torch.float32
) -> HuggingFaceModel:
    """Load a model directory. Nothing outside of it is read, and none of its code is run.

    Args:
        path: Path of the directory.
        task: Name of a task; None means the task of the class in ``config.json``.
        inputs: The user's inputs; None means the conventional ones.
        dtype: Dtype of the weights, except those that the library keeps in float32.

    Raises:
        UsageError: If the directory, its weights or the task are invalid, or the model has no cache that can be
            described.
    """
    directory = open_directory(path)
    library = transformers()
    chosen, maker = choose(directory, task)
    cached = next((spec.name for spec in inputs or () if spec.name.startswith(_CACHE)), None)
    if cached is not None and not chosen.caches:
        raise UsageError(f"input {cached!r} is of a cache: leave it out and use --task text-generation-with-past")
    config = _configuration(directory)
    module = model = load_weights(directory, config, chosen, maker, dtype)
    takes: Collection[str] = inspect.signature(model.forward).parameters
    if chosen.caches:
        conventional = past.inputs(model, conventional_inputs(model, config, chosen, directory))
        takes = [spec.name for spec in conventional]
        inputs = inputs or conventional
        past.check_whole(inputs, conventional)
        module = past.WithPast(model, [spec.name for spec in inputs])
    else:
        _keep_outputs(model, chosen)
    return HuggingFaceModel(
        module,
        name=directory.name,
        task=chosen.name,
        inputs=inputs or conventional_inputs(model, config, chosen, directory),
        takes=takes,
        companions=directory.companions(),
        reference=f"{type(model).__name__} of transformers {library.__version__}",
        example=past.EXAMPLE if chosen.caches else EXAMPLE,
    )


def _configuration(directory: ModelDirectory) -> Any:
    """Read the configuration, and turn off caches, attentions and hidden states, which the graph does not return."""
    try:
        with silent():
            config = transformers().AutoConfig.from_pretrained(
                str(directory.path), local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise UsageError(f"transformers cannot read {directory.path / CONFIG}: {first_line(error)}") from error
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    for part in (config, *(part for part in parts if part is not None)):
        part.use_cache = False
        part.output_attentions = False
        part.output_hidden_states = False
        part._experts_implementation = experts.IMPLEMENTATION
    config.return_dict = True
    return config


def _keep_outputs(module: torch.nn.Module, task: Task) -> None:
    """Make the module return only the task's outputs, by a hook, which keeps ``forward``'s signature.

    An encoder-decoder also returns its encoder's states, and other models a cache or all hidden states. As
    outputs of the graph, they would be computed and copied in every run.
    """

    def select(module: torch.nn.Module, args: Any, result: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        kept = {name: result[name] for name in task.outputs if isinstance(result.get(name), torch.Tensor)}
        if not kept:
            raise ExportError(
                f"{type(module).__name__} returns {', '.join(result)}, and {task.name} asks for {task.outputs[0]}"
            )
        return kept

    module.register_forward_hook(select)
