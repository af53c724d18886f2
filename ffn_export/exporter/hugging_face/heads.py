"""Find the tasks whose weights a directory holds, without loading it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ffn_export.core.quiet import silent
from ffn_export.core.strict import expose_own
from ffn_export.exporter.hugging_face.directory import ModelDirectory
from ffn_export.exporter.hugging_face.library import class_names, transformers
from ffn_export.exporter.hugging_face.tasks import Task, supported


def present(module: Any, missing: Iterable[str], unexpected: Iterable[str]) -> set[str]:
    """Return the names of the stored tensors, given the missing and unexpected keys of a loaded model."""
    names = (set(module.state_dict()) - set(missing)) | set(unexpected)
    return {without_prefix(module, name) for name in names}


def without_prefix(module: Any, name: str) -> str:
    """Return the name of a tensor in the base model, without the prefix that a model with a head adds."""
    return name.removeprefix(f"{module.base_model_prefix}.")


def held_tasks(directory: ModelDirectory, config: Any, names: set[str]) -> list[Task]:
    """Return the tasks for which every parameter is among the names."""
    return [task for task in supported(directory) if _holds(directory, config, task, names)]


def _holds(directory: ModelDirectory, config: Any, task: Task, names: set[str]) -> bool:
    for maker, table in task.makers:
        if not class_names(table, directory.model_type):
            continue
        try:
            with silent(), torch.device("meta"):
                module = getattr(transformers(), maker).from_config(config)
        except Exception as error:  # noqa: BLE001 - a class that cannot be built from this config is skipped
            expose_own(error)
            continue
        tied = getattr(module, "all_tied_weights_keys", {})
        wanted = {without_prefix(module, name) for name, _ in module.named_parameters() if name not in tied}
        if {name for name in wanted if not name.startswith("pooler.") or task.name != "feature-extraction"} <= names:
            return True
    return False
