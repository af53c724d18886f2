"""What a model's graph gives: the outputs of the task, by the names that transformers has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ffn_export.errors import ExportError
from ffn_export.exporter.hugging_face.tasks import Task


def keep_outputs(module: torch.nn.Module, task: Task) -> None:
    """Let the module return the task's outputs and nothing else; a hook leaves ``forward``'s signature as it is.

    An encoder-decoder also returns its encoder's states, others a cache or all hidden states: they would be
    outputs of the graph, computed and copied at every run.
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
