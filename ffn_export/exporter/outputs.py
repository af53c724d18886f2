"""Tensors in a module's result, and their names as graph outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ffn_export.errors import ExportError


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a module's result, in the order of the graph outputs."""
    return [leaf for _, leaf in _leaves(result) if isinstance(leaf, torch.Tensor)]


def check_result(result: Any) -> None:
    """Check that every leaf of the result is a tensor or None; the graph omits None.

    Raises:
        ExportError: If the result has no tensor, or a leaf that a graph cannot return.
    """
    leaves = list(_leaves(result))
    for path, leaf in leaves:
        if leaf is not None and not isinstance(leaf, torch.Tensor):
            where = f" at {'.'.join(path)!r}" if path else ""
            raise ExportError(
                f"forward returns {type(leaf).__name__}{where}, a graph returns tensors only: leave it out, and put "
                "the tensors in tuples, lists, dicts or dataclasses"
            )
        if isinstance(leaf, torch.Tensor) and leaf.is_complex():
            raise ExportError("forward returns complex numbers, ONNX has none: return torch.view_as_real of them")
    if not tensors_of(result):
        raise ExportError("forward returns no tensor, so the graph would have no output: return one")


def output_names(result: Any, taken: Sequence[str]) -> tuple[str, ...]:
    """Name the outputs: ``y`` for a single one, the keys of a mapping or dataclass, else ``output_0``.

    A name that is also an input's gets the suffix ``_out``. A name that is also another output's gets a number.
    """
    paths = [path for path, leaf in _leaves(result) if isinstance(leaf, torch.Tensor)]
    if len(paths) == 1 and (not paths[0] or paths[0][0] == "0"):
        paths = [("y",)]
    names: list[str] = []
    for path in paths:
        name = "_".join(path) or "output"
        name = f"output_{name}" if name[:1].isdigit() else name
        name = f"{name}_out" if name in taken else name
        used = {*taken, *names}
        numbered = (f"{name}_{number}" for number in range(2, len(used) + 3))
        names.append(next(unused for unused in (name, *numbered) if unused not in used))
    return tuple(names)


def register_dataclasses(result: Any) -> None:
    """Register the dataclasses of a result with torch.export, which requires it."""
    if _is_dataclass(result) and _is_registered_leaf(result):
        torch.export.register_dataclass(type(result))
    for _, child in _children(result):
        register_dataclasses(child)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield ``(keys, leaf)`` in the order of pytree's leaves."""
    if _is_registered_leaf(value) and not _is_dataclass(value):
        yield path, value
    for key, child in _children(value):
        yield from _leaves(child, (*path, key))


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_registered_leaf(value: Any) -> bool:
    return pytree.tree_structure(value, is_leaf=lambda v: v is not value).is_leaf()


def _children(value: Any) -> list[tuple[str, Any]]:
    """Return the children of a container, each with its key.

    pytree's paths are not used: a class may be registered without them, such as the results of the
    transformers library.
    """
    named = _fields(value) if _is_dataclass(value) else {}
    if _is_registered_leaf(value):
        return list(named.items())
    children = pytree.tree_leaves(value, is_leaf=lambda v: v is not value)
    keys = [str(key) for key in (value if isinstance(value, Mapping) else named or getattr(value, "_fields", []))]
    if len(keys) != len(children):
        keys = list(map(str, range(len(children))))
    return list(zip(keys, children, strict=True))


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that torch.export keeps: those that are not None."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: field for name, field in fields.items() if field is not None}
