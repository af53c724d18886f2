"""Load weights as tensors only, and check that the files hold all of them: none is ever initialised instead."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ffn_export.core.one_line import first_line
from ffn_export.core.quiet import silent
from ffn_export.core.strict import expose_own
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.directory import ModelDirectory
from ffn_export.exporter.hugging_face.library import class_names, transformers
from ffn_export.exporter.hugging_face.tasks import Task, supported


def load_weights(
    directory: ModelDirectory, config: Any, task: Task, maker: str, dtype: torch.dtype = torch.float32
) -> torch.nn.Module:
    """Make the model for a task and fill it with the weights of the directory.

    Args:
        directory: The model directory.
        config: Configuration of the model.
        task: Task of the model.
        maker: Name of the Auto class that makes the model.
        dtype: Dtype of the weights, except those that the library keeps in float32.

    Raises:
        UsageError: If the files hold anything but tensors, or their tensors do not fit the model.
    """
    module, found = _from_pretrained(directory, config, maker, dtype)
    missing = sorted(found["missing_keys"])
    lacks_pooler_alone = bool(missing) and all(name.startswith("pooler.") for name in missing)
    if lacks_pooler_alone and "add_pooling_layer" in inspect.signature(type(module)).parameters:
        # Weights trained for another task have no pooler, and the hidden states do not need it.
        module, found = _from_pretrained(directory, config, maker, dtype, add_pooling_layer=False)
        missing = sorted(found["missing_keys"])
    if found["error_msgs"]:
        raise UsageError(f"the weights in {directory.path} do not fit: {str(found['error_msgs'][0]).splitlines()[0]}")
    _check_shapes(directory, found["mismatched_keys"])
    if missing:
        raise _lacking(directory, config, module, task, missing, found["unexpected_keys"])
    _check_layers(directory, module, found["unexpected_keys"])
    module.eval()
    return module


def _from_pretrained(
    directory: ModelDirectory, config: Any, maker: str, dtype: torch.dtype, **options: Any
) -> tuple[torch.nn.Module, dict[str, Any]]:
    library = transformers()
    try:
        with silent():
            module, found = getattr(library, maker).from_pretrained(
                str(directory.path),
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                weights_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, with name and shape
                dtype=dtype,
                # Eager instead of sdpa: a query that sees no key, such as the first of a row padded on the left,
                # has a defined result, and ONNX Runtime gives the same. Fused kernels differ for it, even the two of
                # PyTorch. The graph of eager is also smaller.
                attn_implementation="eager",
                **options,
            )
    except Exception as error:
        raise _unreadable(directory, error) from error
    return module, found


def _unreadable(directory: ModelDirectory, error: Exception) -> UsageError:
    refused = [e for e in _chain(error) if isinstance(e, pickle.UnpicklingError)]
    if refused:
        return UsageError(
            f"the .bin weights in {directory.path} hold more than tensors, and pickled code is never run "
            f"({first_line(refused[-1])}): save the model as safetensors where you trust it"
        )
    return UsageError(f"transformers cannot load {directory.path}: {first_line(error)}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _check_shapes(directory: ModelDirectory, mismatched: Iterable[tuple[str, Any, Any]]) -> None:
    different = sorted(mismatched, key=lambda entry: entry[0])
    if different:
        name, stored, wanted = different[0]
        raise UsageError(
            f"{len(different)} of the weights in {directory.path} are not of the shapes that config.json asks for: "
            f"{name} is {list(stored)}, expected {list(wanted)}"
        )


def _lacking(
    directory: ModelDirectory, config: Any, module: Any, task: Task, missing: list[str], unexpected: Iterable[str]
) -> UsageError:
    some = f"{len(missing)} tensors are missing, such as {missing[0]}"
    names = _present(module, missing, unexpected)
    held = [each for each in supported(directory) if _holds(directory, config, each, names)]
    if held:
        return UsageError(
            f"the weights in {directory.path} hold no head for {task.name} ({some}): "
            f"use --task {' or '.join(other.name for other in held)}"
        )
    return UsageError(f"the weights in {directory.path} are not all there: {some}; download or save them again")


def _present(module: Any, missing: Iterable[str], unexpected: Iterable[str]) -> set[str]:
    """Return the names of the stored tensors, given the missing and unexpected keys of a loaded model."""
    names = (set(module.state_dict()) - set(missing)) | set(unexpected)
    return {_without_prefix(module, name) for name in names}


def _without_prefix(module: Any, name: str) -> str:
    """Return the name of a tensor in the base model, without the prefix that a model with a head adds."""
    return name.removeprefix(f"{module.base_model_prefix}.")


def _holds(directory: ModelDirectory, config: Any, task: Task, names: set[str]) -> bool:
    """Whether every parameter of a task is among the names."""
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
        wanted = {_without_prefix(module, name) for name, _ in module.named_parameters() if name not in tied}
        if {name for name in wanted if not name.startswith("pooler.") or task.name != "feature-extraction"} <= names:
            return True
    return False


def _check_layers(directory: ModelDirectory, module: Any, unexpected: Iterable[str]) -> None:
    """Refuse weights of more layers than the model has; weights of other tasks' heads are ignored."""
    known = {_numberless(module, name) for name in module.state_dict()}
    surplus = sorted(name for name in unexpected if re.search(r"\.\d+\.", name) and _numberless(module, name) in known)
    if surplus:
        raise UsageError(
            f"the weights in {directory.path} have more layers than config.json says: {len(surplus)} tensors would be "
            f"left out, such as {surplus[0]}"
        )


def _numberless(module: Any, name: str) -> str:
    return re.sub(r"\.\d+\.", ".#.", _without_prefix(module, name))
