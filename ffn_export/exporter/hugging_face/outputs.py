"""Restrict a model's outputs to those of its task, under transformers' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ffn_export.errors import ExportError
from ffn_export.exporter.hugging_face.tasks import Task


def keep_outputs(module: torch.nn.Module, task: Task) -> None:
    """Make the module return only the task's outputs, by a hook, which keeps ``forward``'s signature.

    An encoder-decoder also returns its encoder's states, and other models a cache or all hidden states. As
    outputs of the graph, they would be computed and copied in every run.
    """

    def select(module: torch.nn.Module, args: Any, result: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        del args
        kept = {name: result[name] for name in task.outputs if isinstance(result.get(name), torch.Tensor)}
        if not kept:
            raise ExportError(
                f"{type(module).__name__} returns {', '.join(result)}, and {task.name} asks for {task.outputs[0]}"
            )
        return kept

    module.register_forward_hook(select)
